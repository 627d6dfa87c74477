import { getOrInsert } from '../../../../base/get-or-insert.ts';
import type { TrackedFlow } from '../../../../dataplane/flow-table.ts';
import type { ExpiringChange, ExpiringElements } from '../../../../dataplane/policy-filter.ts';
import { type Address, FAMILIES, type Family, formatAddress, parseAddress } from '../../../../net/address.ts';
import { cutSetName, endedElements, endedSetName } from '../../../../policy/ruleset/ended-flows.ts';

/** The kernel remembers a TCP connection for so long without packets. */
const ESTABLISHED_MS = 432_000_000;
/** TCP gives up what it sends without an answer within this time, and so the connection. */
const UNSETTLED_MS = 1_800_000;
/** What expires earlier is left to expire: the kernel refuses to remove what has expired. */
const EXPIRING_MS = 60_000;

/** Who has a flow, and what is cut off when it makes room. */
export interface FlowOwner {
  /** Empty for a flow of the node itself. */
  readonly namespace: string;
  /** The pod of the node, or the peer of the node itself; undefined when it is not known which end that is. */
  readonly cut: Address | undefined;
}

/** In elements of the sets. */
interface EndedLimits {
  readonly ofNamespace: number;
  /** Of all namespaces. The kernel counts some that have expired. */
  readonly all: number;
}

const LIMITS: EndedLimits = { ofNamespace: 16_384, all: 60_000 };

interface EndedFlow {
  readonly family: Family;
  readonly elements: readonly string[];
  readonly owner: FlowOwner;
  readonly untilMs: number;
  /** The first element is of the end that began. What the kernel has does not say it. */
  readonly isOriented: boolean;
}

/** The flows of one namespace, the oldest first, and how many elements they have. */
interface Group {
  readonly flows: Map<string, EndedFlow>;
  size: number;
}

/**
 * The ended flows whose packets the kernel drops. A namespace with too many loses its oldest, and then the kernel drops every TCP
 * packet of their pods, or of the peers of a host endpoint, of which it knows no beginning: no flow goes on because there are others.
 */
export class EndedRecord {
  readonly #limits: EndedLimits;
  readonly #groups = new Map<string, Group>();
  /** Until when the kernel cuts the addresses of a set, by the name of the set. */
  readonly #cuts = new Map<string, Map<string, number>>();
  #size = 0;

  constructor(limits: EndedLimits = LIMITS) {
    this.#limits = limits;
  }

  /** Takes what the kernel has from an earlier process. `ownerOf` returns the owner of packets between two addresses. */
  load(present: ExpiringElements, nowMs: number, ownerOf: (ends: readonly Address[]) => FlowOwner): void {
    for (const family of FAMILIES) {
      const cuts = [...(present.get(cutSetName(family)) ?? [])].map(
        ([text, leftMs]) => [text, nowMs + leftMs] as const,
      );
      this.#cuts.set(cutSetName(family), new Map(cuts));
      const flows = [...(present.get(endedSetName(family)) ?? [])].toSorted(([, a], [, b]) => a - b);
      for (const [text, leftMs] of flows) {
        const ends = text.split(' ').slice(0, 2).map(parseAddress);
        this.#put({ family, elements: [text], owner: ownerOf(ends), untilMs: nowMs + leftMs, isOriented: false });
      }
    }
  }

  /** Adds flows, the oldest first, and returns what to change in the kernel. */
  add(flows: readonly { readonly flow: TrackedFlow; readonly owner: FlowOwner }[], nowMs: number): ExpiringChange {
    const removed = new Map<string, Set<string>>();
    const added = new Map<string, Map<string, number>>();
    this.#forgetExpired(nowMs);
    for (const { flow, owner } of flows) {
      const elements = endedElements(flow);
      const { family } = flow.original.source;
      const lastsMs = flow.isUnsettled === true ? UNSETTLED_MS : ESTABLISHED_MS;
      if (elements.length === 0) continue;
      this.#put({ family, elements, owner, untilMs: nowMs + lastsMs, isOriented: true });
      for (const text of elements)
        getOrInsert(added, endedSetName(family), () => new Map<string, number>()).set(text, lastsMs);
    }
    for (const { family, elements, owner, untilMs } of this.#tooMany()) {
      for (const text of elements) {
        // Of this call, or of an earlier one.
        if (added.get(endedSetName(family))?.delete(text) === true || untilMs - nowMs < EXPIRING_MS) continue;
        getOrInsert(removed, endedSetName(family), () => new Set<string>()).add(text);
      }
      if (owner.cut === undefined) continue;
      const [name, text] = [cutSetName(owner.cut.family), formatAddress(owner.cut)];
      const cut = getOrInsert(added, name, () => new Map<string, number>());
      cut.set(text, Math.max(cut.get(text) ?? 0, untilMs - nowMs));
      const cuts = getOrInsert(this.#cuts, name, () => new Map<string, number>());
      cuts.set(text, Math.max(cuts.get(text) ?? 0, untilMs));
    }
    return { removed, added };
  }

  /** Returns what the kernel has no longer, because another program has removed its sets. */
  missing(present: ExpiringElements, nowMs: number): ExpiringChange {
    this.#forgetExpired(nowMs);
    const added = new Map<string, Map<string, number>>();
    const want = (name: string, text: string, untilMs: number): void => {
      if (present.get(name)?.has(text) !== true)
        getOrInsert(added, name, () => new Map<string, number>()).set(text, untilMs - nowMs);
    };
    for (const { flows } of this.#groups.values())
      for (const { family, elements, untilMs } of flows.values())
        for (const text of elements) want(endedSetName(family), text, untilMs);
    for (const [name, cuts] of this.#cuts) for (const [text, untilMs] of cuts) want(name, text, untilMs);
    return { removed: new Map(), added };
  }

  /** Reports whether the flow is one that has ended, which the kernel began to track anew by a packet of its other end. */
  isRevived(flow: TrackedFlow): boolean {
    const [, back] = endedElements(flow);
    return back !== undefined && [...this.#groups.values()].some(({ flows }) => flows.get(back)?.isOriented === true);
  }

  #put(flow: EndedFlow): void {
    const { elements, owner } = flow;
    const group = getOrInsert(this.#groups, owner.namespace, () => ({ flows: new Map<string, EndedFlow>(), size: 0 }));
    const key = elements[0] ?? '';
    this.#remove(group, key);
    group.flows.set(key, flow);
    group.size += elements.length;
    this.#size += elements.length;
  }

  #remove(group: Group, key: string): EndedFlow | undefined {
    const flow = group.flows.get(key);
    if (flow === undefined) return undefined;
    group.flows.delete(key);
    group.size -= flow.elements.length;
    this.#size -= flow.elements.length;
    return flow;
  }

  #forgetExpired(nowMs: number): void {
    for (const cuts of this.#cuts.values()) for (const [text, untilMs] of cuts) if (untilMs <= nowMs) cuts.delete(text);
    for (const [namespace, group] of this.#groups) {
      for (const [key, { untilMs }] of group.flows) if (untilMs <= nowMs) this.#remove(group, key);
      if (group.flows.size === 0) this.#groups.delete(namespace);
    }
  }

  /** Removes the oldest flows of namespaces that have too many, and of the largest one while all have too many. */
  *#tooMany(): Generator<EndedFlow> {
    for (const group of this.#groups.values()) yield* this.#shrink(group, () => group.size > this.#limits.ofNamespace);
    while (this.#size > this.#limits.all) {
      const [largest, second] = [...this.#groups.values()].toSorted((a, b) => b.size - a.size);
      if (largest === undefined) return;
      const least = Math.min(second?.size ?? 0, largest.size - 1);
      yield* this.#shrink(largest, () => this.#size > this.#limits.all && largest.size > least);
    }
  }

  *#shrink(group: Group, isLarge: () => boolean): Generator<EndedFlow> {
    while (isLarge()) {
      const [oldest] = group.flows.keys();
      const flow = oldest === undefined ? undefined : this.#remove(group, oldest);
      if (flow === undefined) return;
      yield flow;
    }
  }
}
