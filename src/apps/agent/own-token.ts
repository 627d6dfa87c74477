import type { RetryPorts } from '../../base/back-off.ts';
import { type NetplugError, reasonAndRemedy } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { failureFacts } from '../../cni/error-output.ts';
import { unboundToken } from '../../kube/token-binding.ts';

const PERIOD_MS = 60_000;

export interface OwnTokenPorts extends Pick<RetryPorts, 'clock'> {
  readonly log: Log;
  /** Returns the agent's own token; undefined for another credential. @throws store/config-invalid */
  readonly readToken: (signal: AbortSignal) => Promise<string | undefined>;
}

/** Reports a token of the agent that the admission policies refuse, also while none are in force. */
export class OwnToken {
  readonly #ports: OwnTokenPorts;
  readonly #node: string;
  #fault: NetplugError | undefined;

  constructor(ports: OwnTokenPorts, node: string) {
    this.#ports = ports;
    this.#node = node;
  }

  get warning(): string | undefined {
    return this.#fault === undefined ? undefined : reasonAndRemedy(this.#fault);
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, readToken } = this.#ports;
    while (!signal.aborted) {
      // What cannot be read is reported where the token is used.
      const token = await readToken(signal).catch(() => undefined);
      const fault = token === undefined ? undefined : unboundToken(token, this.#node);
      if (fault !== undefined && fault.message !== this.#fault?.message)
        log.warning('token not bound to the node', failureFacts(fault));
      this.#fault = fault;
      await clock.sleep(PERIOD_MS, signal).catch(() => undefined);
    }
  }
}
