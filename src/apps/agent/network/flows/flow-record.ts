import { getOrInsert } from '../../../../base/get-or-insert.ts';
import type { FlowsQuestion, ShownFlow } from '../../../../model/shown-flows.ts';
import type { RuleOrigin } from '../../../../policy/ruleset/policy-ruleset.ts';

/** A flow without the times and counts that the record keeps. */
export type ObservedFlow = Omit<ShownFlow, 'firstSeen' | 'lastSeen' | 'count' | 'rule'>;

interface Entry {
  flow: ObservedFlow;
  rule: ShownFlow['rule'];
  origin: RuleOrigin | undefined;
  readonly firstMs: number;
  lastMs: number;
  count: number;
}

/** The flows between two ends. */
interface Pair {
  /** By port or type. */
  readonly flows: Map<string, Entry>;
  lastMs: number;
}

interface Group {
  readonly name: string;
  /** Ordered by last observation, the oldest first. */
  readonly pairs: Map<string, Pair>;
  /** Number of flows that its pairs have. */
  size: number;
}

interface RecordLimits {
  readonly maxFlows: number;
  /** Beyond so many ports between the same two ends, flows are merged into one without a port. */
  readonly maxPorts: number;
  /** Flows that were not observed for this long are evicted. */
  readonly keepMs: number;
}

const LIMITS: RecordLimits = { maxFlows: 8192, maxPorts: 16, keepMs: 3_600_000 };
/** Interval at which a full record looks for flows that are too old. */
const SWEEP_MS = 1000;

/**
 * Keeps flows in bounded memory. Flows between the same ends to the same port are one. Above the limit, the oldest flow of the
 * largest group is evicted, so that a flood in one group does not evict the flows of others.
 */
export class FlowRecord {
  readonly #limits: RecordLimits;
  readonly #groups = new Map<string, Group>();
  /** Groups by how many flows they have. */
  readonly #bySize = new Map<number, Set<Group>>();
  #largestSize = 0;
  #sweptMs = Number.NEGATIVE_INFINITY;
  #size = 0;
  #forgotten = 0;

  constructor(limits: RecordLimits = LIMITS) {
    this.#limits = limits;
  }

  /** Number of flows that were forgotten before their time. */
  get forgotten(): number {
    return this.#forgotten;
  }

  /**
   * Adds to a flow, or begins one. `ruleOf` is called for a new flow, and when another rule than before has decided. Reports whether
   * the flow is new.
   */
  add(
    seen: {
      readonly flow: ObservedFlow;
      readonly group: string;
      readonly count: number;
      /** The rule that decided. */
      readonly origin?: RuleOrigin;
    },
    atMs: number,
    ruleOf: () => ShownFlow['rule'],
  ): boolean {
    const { flow, count, origin } = seen;
    const emptyGroup = (): Group => ({ name: seen.group, pairs: new Map(), size: 0 });
    const group = getOrInsert(this.#groups, seen.group, emptyGroup);
    const pairKey = keyOfPair(flow);
    const pair = group.pairs.get(pairKey) ?? { flows: new Map<string, Entry>(), lastMs: atMs };
    pair.lastMs = atMs;
    // Behind the others, as the last one seen.
    group.pairs.delete(pairKey);
    group.pairs.set(pairKey, pair);
    const ownKey = keyOfPort(flow);
    const isMerged = !pair.flows.has(ownKey) && pair.flows.size >= this.#limits.maxPorts;
    const key = isMerged ? '' : ownKey;
    const known = pair.flows.get(key);
    if (known !== undefined) {
      known.lastMs = atMs;
      known.count += count;
      if (flow.isReplied === true) known.flow = { ...known.flow, isReplied: true };
      if (known.origin !== origin) Object.assign(known, { origin, rule: ruleOf() });
      return false;
    }
    const shown = isMerged ? withoutPort(flow) : flow;
    pair.flows.set(key, { flow: shown, rule: ruleOf(), origin, firstMs: atMs, lastMs: atMs, count });
    this.#resize(group, 1);
    if (this.#size > this.#limits.maxFlows) this.#forget(atMs);
    return true;
  }

  /** Returns the flows that match, the last one seen last. */
  list({ verdicts, sinceSeconds = Infinity, pod }: FlowsQuestion, nowMs: number): readonly ShownFlow[] {
    const sinceMs = nowMs - Math.min(sinceSeconds * 1000, this.#limits.keepMs);
    return [...this.#entries()]
      .filter(({ flow, lastMs }) => {
        const isEnd = pod === undefined || flow.source.pod === pod || flow.destination.pod === pod;
        return isEnd && lastMs >= sinceMs && verdicts.includes(flow.verdict);
      })
      .toSorted((a, b) => a.lastMs - b.lastMs)
      .map(({ flow, rule, firstMs, lastMs, count }) => ({
        ...flow,
        ...(rule === undefined ? {} : { rule }),
        firstSeen: timeText(firstMs),
        lastSeen: timeText(lastMs),
        count,
      }));
  }

  *#entries(): Generator<Entry> {
    for (const { pairs } of this.#groups.values()) for (const { flows } of pairs.values()) yield* flows.values();
  }

  /** Makes room: removes flows that are too old, or else the oldest pair of the largest group. */
  #forget(nowMs: number): void {
    if (Math.abs(nowMs - this.#sweptMs) >= SWEEP_MS) {
      this.#sweptMs = nowMs;
      for (const group of this.#groups.values()) this.#removeOld(group, nowMs - this.#limits.keepMs);
    }
    const before = this.#size;
    if (before <= this.#limits.maxFlows) return;
    const [largest] = this.#bySize.get(this.#largestSize) ?? [];
    const [oldest] = largest?.pairs ?? [];
    if (largest !== undefined && oldest !== undefined) this.#remove(largest, ...oldest);
    this.#forgotten += before - this.#size;
  }

  #removeOld(group: Group, beforeMs: number): void {
    for (const [key, pair] of group.pairs) {
      if (pair.lastMs >= beforeMs) break;
      this.#remove(group, key, pair);
    }
  }

  #remove(group: Group, key: string, pair: Pair): void {
    group.pairs.delete(key);
    this.#resize(group, -pair.flows.size);
    if (group.size === 0) this.#groups.delete(group.name);
  }

  #resize(group: Group, change: number): void {
    const same = this.#bySize.get(group.size);
    same?.delete(group);
    if (same?.size === 0) this.#bySize.delete(group.size);
    group.size += change;
    this.#size += change;
    if (group.size > 0) {
      getOrInsert(this.#bySize, group.size, () => new Set<Group>()).add(group);
    }
    this.#largestSize = Math.max(this.#largestSize, group.size);
    // It falls by no more than what was removed.
    while (this.#largestSize > 0 && !this.#bySize.has(this.#largestSize)) this.#largestSize -= 1;
  }
}

/** The pod belongs to it, because another pod may get its address. */
function keyOfPair({ verdict, source, destination, protocol }: ObservedFlow): string {
  return [verdict, source.address, source.pod, destination.address, destination.pod, String(protocol)].join(' ');
}

function keyOfPort({ port, icmp, request }: ObservedFlow): string {
  if (request !== undefined) return `request ${JSON.stringify([port, request])}`;
  return icmp === undefined ? `port ${String(port)}` : `icmp ${String(icmp.type)} ${String(icmp.code)}`;
}

/** Requests keep their port: many of them are many paths. */
function withoutPort({ port, icmp: _icmp, request, ...flow }: ObservedFlow): ObservedFlow {
  if (request === undefined) return flow;
  return { ...flow, ...(port === undefined ? {} : { port }), request: { method: 'other', path: '' } };
}

/** RFC 3339, in whole seconds. */
export function timeText(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
