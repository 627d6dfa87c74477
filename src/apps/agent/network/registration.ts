import type { Clock } from '../../../base/clock.ts';
import type { NetworkReport, NodeStatusStore } from '../../../datastore/node-status-store.ts';
import type { NodeName } from '../../../model/names.ts';

/** The whole network may fail for so long before the orchestrator is told. */
const PATIENCE_MS = 30_000;

export interface RegistrationPorts {
  readonly store: Pick<NodeStatusStore, 'reportNetwork'>;
  readonly clock: Clock;
  /** Writes what the plugin reads: the MTU for pods first, the node's name last. */
  readonly register: (offer: { readonly mtu: number | undefined }) => Promise<void>;
}

/** Tells plugin and orchestrator that the node's network works, and the orchestrator when it has not for a while. */
export class Registration {
  readonly #ports: RegistrationPorts;
  readonly #node: NodeName;
  /** What was told last. */
  #told: string | undefined;
  #isToldUp = false;
  #failingSinceMs: number | undefined;

  constructor(ports: RegistrationPorts, node: NodeName) {
    this.#ports = ports;
    this.#node = node;
  }

  /** Does nothing when there is nothing new to tell. `mtu` in bytes. @throws store/*, the file system's error */
  async tell(
    { failing, mtu }: { readonly failing: readonly string[]; readonly mtu: number | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    const { store, register, clock } = this.#ports;
    const told = JSON.stringify([mtu, failing]);
    if (failing.length > 0) {
      this.#failingSinceMs ??= clock.monotonic();
      // Before it has worked once, nothing is known that would be worth a word.
      if (!this.#isToldUp || told === this.#told || clock.monotonic() - this.#failingSinceMs < PATIENCE_MS) return;
      await store.reportNetwork(this.#node, networkFailure(failing.join('; ')), signal).catch((cause: unknown) => {
        // What kept it from being told may be what failed: once that is over, the rest has as long to follow.
        this.#failingSinceMs = undefined;
        throw cause;
      });
    } else {
      this.#failingSinceMs = undefined;
      if (told === this.#told) return;
      await register({ mtu });
      const message = 'netplug-agent routes between this node and the others';
      await store.reportNetwork(this.#node, { isUp: true, reason: 'NetplugIsUp', message }, signal);
      this.#isToldUp = true;
    }
    this.#told = told;
  }
}

/** The report of a network that has failed for 30 s. */
export function networkFailure(message: string): NetworkReport {
  return { isUp: false, reason: 'NetplugIsNotReady', message };
}
