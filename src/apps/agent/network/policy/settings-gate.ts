import { aborted } from '../../../../base/until-aborted.ts';
import { enforcesHosts } from '../../../../policy/ruleset/host-chains.ts';
import { POLICY_TABLE } from '../../../../policy/ruleset/policy-ruleset.ts';
import type { EnforcementPorts } from './enforcement-ports.ts';

/** Time that the first policies wait for the settings of the agent, which another watch brings. */
const SETTINGS_MS = 5000;

type GatePorts = Pick<EnforcementPorts, 'settingsRead' | 'policyFilter' | 'clock' | 'log'>;

/** Holds the first policies of a process back until the settings of the agent have been read. */
export class SettingsGate {
  readonly #ports: GatePorts;
  #isOpen = false;

  constructor(ports: GatePorts) {
    this.#ports = ports;
  }

  /** Whether the settings have been read. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Resolves when the settings have been read. */
  async open(): Promise<void> {
    await this.#ports.settingsRead;
    this.#isOpen = true;
  }

  /**
   * Policies of other settings would end flows, and drop packets to the host, for a moment. Built-in failsafe ports may lock the
   * administrator out: host endpoints that an earlier process enforces stay until the settings are known, with all that is in its table.
   */
  async pass(hasHostEndpoints: () => boolean, signal: AbortSignal): Promise<void> {
    const { settingsRead, clock, log } = this.#ports;
    const over = new AbortController();
    const limit = clock.sleep(SETTINGS_MS, AbortSignal.any([signal, over.signal])).catch(() => undefined);
    await Promise.race([settingsRead, limit]);
    over.abort();
    if (this.#isOpen || signal.aborted) return;
    const isKept = hasHostEndpoints() && (await this.#hasHostRules(signal));
    log.warning('settings not read', {
      waitedMs: SETTINGS_MS,
      policies: isKept ? 'as before' : 'with built-in settings',
    });
    if (!isKept) return;
    await Promise.race([settingsRead, aborted(signal)]);
  }

  /** Reports whether the kernel enforces host endpoints, or cannot say. */
  async #hasHostRules(signal: AbortSignal): Promise<boolean> {
    try {
      return enforcesHosts(await this.#ports.policyFilter().ruleIds(POLICY_TABLE, signal));
    } catch {
      return true;
    }
  }
}
