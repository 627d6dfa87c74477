import { BackOff } from '../../../../base/back-off.ts';
import { reasonOf } from '../../../../base/errors.ts';
import { POLICY_TABLE } from '../../../../policy/ruleset/policy-ruleset.ts';
import type { EnforcementPorts } from './enforcement-ports.ts';

const BACK_OFF = { firstMs: 100, maxMs: 5000, maxRefusedMs: 30_000 };

type SwitchPorts = Pick<EnforcementPorts, 'policyFilter' | 'saveOn' | 'clearOn' | 'log' | 'clock' | 'random'>;

/** Whether a node enforces policies, as its kernel and its state folder know it. */
export class EnforcementSwitch {
  readonly #ports: SwitchPorts;
  #isRemembered = false;
  #isMemoryFailing = false;

  constructor(ports: SwitchPorts) {
    this.#ports = ports;
  }

  /** Removes what an earlier process enforced: the rules first, so that the node remembers it until they are removed. */
  async remove(signal: AbortSignal): Promise<void> {
    const { policyFilter, clearOn, log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    while (!signal.aborted) {
      try {
        await policyFilter().remove(POLICY_TABLE, signal);
        clearOn();
        // A call without an agent may have closed the pods again while the node remembered.
        await policyFilter().remove(POLICY_TABLE, signal);
        return;
      } catch (cause) {
        if (signal.aborted) return;
        if (backOff.fail(cause) === 1) log.warning('policies not removed', { reason: reasonOf(cause) });
        await backOff.wait(signal);
      }
    }
  }

  /** Reports whether the kernel has rules of an earlier process, which may have ended before the node remembered it. */
  async hasRules(signal: AbortSignal): Promise<boolean> {
    const { policyFilter, log } = this.#ports;
    try {
      return (await policyFilter().ruleIds(POLICY_TABLE, signal)).size > 0;
    } catch (cause) {
      if (!signal.aborted) log.warning('policy table not read', { reason: reasonOf(cause) });
      return false;
    }
  }

  /** Retried by each write. A failure is not one of policies: they are in force, but not after a reboot. */
  remember(): void {
    if (this.#isRemembered) return;
    try {
      this.#ports.saveOn();
      this.#isRemembered = true;
    } catch (cause) {
      if (!this.#isMemoryFailing) this.#ports.log.warning('policy setting not saved', { reason: reasonOf(cause) });
      this.#isMemoryFailing = true;
    }
  }
}
