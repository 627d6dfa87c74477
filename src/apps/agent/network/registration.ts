import type { Clock } from '../../../base/clock.ts';
import type { NetworkReport, NodeStatusStore } from '../../../datastore/node-status-store.ts';
import { NETWORK_REASONS } from '../../../model/notes.ts';
import type { NodeName } from '../../../model/names.ts';

/** Time for which the network must fail before the condition of the Node changes. */
const FAILURE_GRACE_MS = 30_000;
/** Interval at which an unchanged report is made again: another program may have written the condition. */
const RENEW_MS = 60_000;

export interface RegistrationPorts {
  readonly store: Pick<NodeStatusStore, 'reportNetwork'>;
  readonly clock: Clock;
  /** Writes what the plugin reads: the MTU for pods first, the node's name last. */
  readonly register: (offer: { readonly mtu: number | undefined }) => Promise<void>;
}

/** Registers the node once its network works, and reports failures of 30 s or more as a condition of the Node. */
export class Registration {
  readonly #ports: RegistrationPorts;
  readonly #node: NodeName;
  /** The input of the last report. */
  #reported: string | undefined;
  /** Milliseconds of the monotonic clock. */
  #reportedMs = Number.NEGATIVE_INFINITY;
  #isRegistered = false;
  #failingSinceMs: number | undefined;

  constructor(ports: RegistrationPorts, node: NodeName) {
    this.#ports = ports;
    this.#node = node;
  }

  /** Makes the next report reach the datastore: the Node has changed, or is another one. */
  renew(): void {
    this.#reportedMs = Number.NEGATIVE_INFINITY;
  }

  /**
   * Reports the state of the network. Unless that has changed, does nothing within a minute. `mtu` in bytes. @throws store/*, the
   * file system's error
   */
  async report(
    { failing, mtu }: { readonly failing: readonly string[]; readonly mtu: number | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    const { store, register, clock } = this.#ports;
    const current = JSON.stringify([mtu, failing]);
    const isSaid = current === this.#reported && clock.monotonic() - this.#reportedMs < RENEW_MS;
    if (failing.length > 0) {
      this.#failingSinceMs ??= clock.monotonic();
      // A node that was never registered has not been reported ready.
      if (!this.#isRegistered || isSaid || clock.monotonic() - this.#failingSinceMs < FAILURE_GRACE_MS) return;
      await store.reportNetwork(this.#node, networkFailure(failing.join('; ')), signal).catch((cause: unknown) => {
        // The datastore may be the cause of the failure. Once it is back, the network has the whole time to recover.
        this.#failingSinceMs = undefined;
        throw cause;
      });
    } else {
      this.#failingSinceMs = undefined;
      if (isSaid) return;
      if (current !== this.#reported) await register({ mtu });
      const message = 'netplug-agent routes between this node and the other nodes';
      await store.reportNetwork(this.#node, { isUp: true, reason: NETWORK_REASONS.up, message }, signal);
      this.#isRegistered = true;
    }
    this.#reported = current;
    this.#reportedMs = clock.monotonic();
  }
}

/** The report of a network that has failed for 30 s. */
export function networkFailure(message: string): NetworkReport {
  return { isUp: false, reason: NETWORK_REASONS.notReady, message };
}
