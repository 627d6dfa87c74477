import type { FilterCount } from '../../../dataplane/policy-filter.ts';
import type { RuleOrigin } from '../../../policy/ruleset/policy-ruleset.ts';

interface RuleCounter {
  readonly origin: RuleOrigin;
  readonly lastPackets: bigint;
  readonly packets: number;
}

/**
 * Adds up the counters of rules since the first reading. The kernel starts at 0 again when a changed policy gets new chains, and
 * keeps what an earlier agent counted.
 */
export class RuleCounters {
  readonly #counters = new Map<string, RuleCounter>();
  /** What the kernel had counted at the first reading, of rules that are not known yet. */
  #before: Map<string, bigint> | undefined;

  /** Counters of rules that `origins` does not have are forgotten. */
  add(counts: ReadonlyMap<string, FilterCount>, origins: ReadonlyMap<string, RuleOrigin>): void {
    this.#before ??= new Map([...counts].map(([id, { packets }]) => [id, packets]));
    for (const id of this.#counters.keys()) if (!origins.has(id)) this.#counters.delete(id);
    for (const [id, origin] of origins) {
      const read = counts.get(id)?.packets ?? 0n;
      const known = this.#counters.get(id) ?? { lastPackets: this.#before.get(id) ?? 0n, packets: 0 };
      this.#before.delete(id);
      const added = read < known.lastPackets ? read : read - known.lastPackets;
      this.#counters.set(id, { origin, lastPackets: read, packets: known.packets + Number(added) });
    }
  }

  /** Returns the rules that have counted packets. */
  list(): readonly { readonly origin: RuleOrigin; readonly packets: number }[] {
    return [...this.#counters.values()].filter(({ packets }) => packets > 0);
  }
}
