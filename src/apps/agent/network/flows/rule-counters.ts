import type { FilterCount } from '../../../../dataplane/policy-filter.ts';
import type { RuleOrigin } from '../../../../policy/ruleset/policy-ruleset.ts';

interface RuleCounter {
  readonly origin: RuleOrigin;
  readonly packets: number;
}

/**
 * Adds up the counters of rules since the first reading. A rule may stand in several chains, which come, start at 0 and go with
 * changes of policies; the kernel keeps what an earlier agent counted.
 */
export class RuleCounters {
  readonly #counters = new Map<string, RuleCounter>();
  /** Part of the kernel's counts that is added already, by chain and rule; undefined before the first reading. */
  #added: ReadonlyMap<string, bigint> | undefined;

  /** Counters of rules that `origins` does not have are forgotten. */
  add(counts: readonly FilterCount[], origins: ReadonlyMap<string, RuleOrigin>): void {
    const added = new Map<string, bigint>();
    const more = new Map<string, number>();
    for (const { chain, rule, packets } of counts) {
      const key = `${chain} ${rule}`;
      const last = this.#added === undefined ? packets : (this.#added.get(key) ?? 0n);
      const isKnown = origins.has(rule);
      // What is counted before the rule is known is added when it is.
      added.set(key, isKnown ? packets : last);
      if (isKnown) more.set(rule, (more.get(rule) ?? 0) + Number(packets < last ? packets : packets - last));
    }
    this.#added = added;
    for (const id of this.#counters.keys()) if (!origins.has(id)) this.#counters.delete(id);
    for (const [id, origin] of origins)
      this.#counters.set(id, { origin, packets: (this.#counters.get(id)?.packets ?? 0) + (more.get(id) ?? 0) });
  }

  /** Returns the rules that have counted packets. */
  list(): readonly { readonly origin: RuleOrigin; readonly packets: number }[] {
    return [...this.#counters.values()].filter(({ packets }) => packets > 0);
  }
}
