import type { Log } from '../../base/log.ts';
import { IGNORED_ANNOTATIONS } from '../../config/ignored-annotations.ts';
import type { Netconf } from '../../config/netconf.ts';

const REMEMBERED = 32;
const NAMES_POD = /(?:^|;)\s*K8S_POD_NAME\s*=\s*[^\s;]/;

/** Logs once per network configuration that it ignores the annotations of pods. */
export class IgnoredAnnotations {
  readonly #log: Log;
  /** Names of configurations, oldest first. */
  readonly #reported = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Examines one call. A configuration that got policy.type in between and lost it again is logged again. */
  note(
    { name, policyType }: Pick<Netconf, 'name' | 'policyType'>,
    env: Readonly<Record<string, string | undefined>>,
  ): void {
    if (policyType !== undefined) this.#reported.delete(name);
    else if (env['CNI_COMMAND'] === 'ADD' && NAMES_POD.test(env['CNI_ARGS'] ?? '')) this.#report(name);
  }

  #report(name: string): void {
    if (this.#reported.has(name)) return;
    const [oldest] = this.#reported;
    if (this.#reported.size >= REMEMBERED && oldest !== undefined) this.#reported.delete(oldest);
    this.#reported.add(name);
    this.#log.info(IGNORED_ANNOTATIONS.event, { network: name, ...IGNORED_ANNOTATIONS.facts });
  }
}
