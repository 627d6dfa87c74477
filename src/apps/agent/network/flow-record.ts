import type { FlowsQuestion, ShownFlow } from '../../../model/shown-flows.ts';

/** A flow without the times and counts that the record keeps. */
export type SeenFlow = Omit<ShownFlow, 'firstSeen' | 'lastSeen' | 'count' | 'rule'>;

interface Entry {
  flow: SeenFlow;
  readonly rule: ShownFlow['rule'];
  readonly firstMs: number;
  lastMs: number;
  count: number;
}

/** The flows of one group between two ends, by port or type. The longest unseen pair comes first. */
type Group = Map<string, Map<string, Entry>>;

interface RecordLimits {
  readonly maxFlows: number;
  /** Beyond so many ports between the same two ends, flows are merged into one without a port. */
  readonly maxPorts: number;
  /** Flows that were not seen for so long are forgotten. */
  readonly keepMs: number;
}

const LIMITS: RecordLimits = { maxFlows: 8192, maxPorts: 16, keepMs: 3_600_000 };

/**
 * Remembers flows in bounded memory. Flows between the same ends to the same port are one. When there are too many, the group
 * that has the most forgets its oldest, so that a flood in one group does not remove what others had.
 */
export class FlowRecord {
  readonly #limits: RecordLimits;
  readonly #groups = new Map<string, Group>();
  #size = 0;
  #forgotten = 0;

  constructor(limits: RecordLimits = LIMITS) {
    this.#limits = limits;
  }

  /** How many flows were forgotten before their time. */
  get forgotten(): number {
    return this.#forgotten;
  }

  /** Adds to a flow, or begins one. `ruleOf` is called for a new flow only. Reports whether the flow is new. */
  add(
    seen: { readonly flow: SeenFlow; readonly group: string; readonly count: number },
    atMs: number,
    ruleOf: () => ShownFlow['rule'],
  ): boolean {
    const { flow, count } = seen;
    const group = this.#groups.get(seen.group) ?? new Map<string, Map<string, Entry>>();
    this.#groups.set(seen.group, group);
    const pairKey = keyOfPair(flow);
    const pair = group.get(pairKey) ?? new Map<string, Entry>();
    // Behind the others, as the last one seen.
    group.delete(pairKey);
    group.set(pairKey, pair);
    const ownKey = keyOfPort(flow);
    const isMerged = !pair.has(ownKey) && pair.size >= this.#limits.maxPorts;
    const key = isMerged ? '' : ownKey;
    const known = pair.get(key);
    if (known !== undefined) {
      known.lastMs = atMs;
      known.count += count;
      if (flow.isReplied === true) known.flow = { ...known.flow, isReplied: true };
      return false;
    }
    pair.set(key, { flow: isMerged ? withoutPort(flow) : flow, rule: ruleOf(), firstMs: atMs, lastMs: atMs, count });
    this.#size += 1;
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
    for (const group of this.#groups.values()) for (const pair of group.values()) yield* pair.values();
  }

  /** Makes room: removes flows that are too old, or else the oldest pair of the largest group. */
  #forget(nowMs: number): void {
    const before = this.#size;
    for (const [name, group] of this.#groups)
      this.#removePairs(name, group, (lastMs) => lastMs < nowMs - this.#limits.keepMs);
    if (this.#size < before) return;
    const sizes = [...this.#groups].map(([name, group]) => ({ name, group, size: sizeOf(group) }));
    const largest = sizes.reduce((a, b) => (b.size > a.size ? b : a));
    let isFirst = true;
    this.#removePairs(largest.name, largest.group, () => {
      const isOldest = isFirst;
      isFirst = false;
      return isOldest;
    });
    this.#forgotten += before - this.#size;
  }

  /** Removes pairs, the longest unseen first, while `isOver` holds for the time when they were last seen. */
  #removePairs(name: string, group: Group, isOver: (lastMs: number) => boolean): void {
    for (const [key, pair] of group) {
      if (!isOver(Math.max(...[...pair.values()].map(({ lastMs }) => lastMs)))) break;
      group.delete(key);
      this.#size -= pair.size;
    }
    if (group.size === 0) this.#groups.delete(name);
  }
}

function sizeOf(group: Group): number {
  let size = 0;
  for (const pair of group.values()) size += pair.size;
  return size;
}

/** The pod belongs to it, because another pod may get its address. */
function keyOfPair({ verdict, source, destination, protocol }: SeenFlow): string {
  return [verdict, source.address, source.pod, destination.address, destination.pod, String(protocol)].join(' ');
}

function keyOfPort({ port, icmp }: SeenFlow): string {
  return icmp === undefined ? `port ${String(port)}` : `icmp ${String(icmp.type)} ${String(icmp.code)}`;
}

function withoutPort({ port: _port, icmp: _icmp, ...flow }: SeenFlow): SeenFlow {
  return flow;
}

/** RFC 3339, in whole seconds. */
export function timeText(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
