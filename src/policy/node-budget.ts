import { compareAge, ENTRIES_OF_ONE } from './policy-budgets.ts';
import type { PolicyState } from './policy-state.ts';
import type { TouchedPolicy } from './policy-view.ts';
import type { PeerSelector, PolicyDirection, PolicyEndpoint, ResolvedPolicy } from './resolved-policy.ts';

const DIRECTIONS: readonly PolicyDirection[] = ['ingress', 'egress'];

const MANY_ADDED = 1000;

/** What a policy takes for a place in each further list. Pods to which the same policies apply share one list. */
const ENTRIES_OF_PLACE = 8;

/** What a policy that applies on the node takes in its kernel. */
interface Want {
  readonly id: string;
  /** The policies of a namespace share; a global policy is alone. */
  readonly group: string;
  readonly createdAt: string;
  readonly entries: number;
  readonly selectors: readonly PeerSelector[];
}

/**
 * Decides which policies that apply on a node are within what its kernel has room for: their entries, their places in the lists of
 * pods, and the members of their selectors. Those of the namespace that takes most give way first, the youngest first.
 */
export class NodeBudget {
  readonly #node: string;
  /** Keys of the endpoints of the node. */
  readonly #local = new Set<string>();
  /** By id. Of a policy that is closed, as it was before. */
  #wants = new Map<string, Want>();
  /** Members of the selectors of closed policies, by text. */
  #sizes = new Map<string, number>();

  /** The last decision, as long as nothing changed that it depends on. */
  #decided: { readonly limit: number; readonly withheld: ReadonlyMap<string, string> } | undefined;
  /** Members that selectors have got since. */
  #added = 0;

  constructor(node: string) {
    this.#node = node;
  }

  /** Notes what has changed in the state; undefined for everything. */
  take(state: PolicyState, touched: Pick<TouchedPolicy, 'endpoints' | 'policies' | 'selectors'> | undefined): void {
    if (touched === undefined || touched.policies.size > 0) this.#decided = undefined;
    for (const key of touched?.endpoints ?? state.endpoints.keys()) {
      const endpoint = state.endpoints.get(key);
      const isLocal = endpoint !== undefined && this.#isLocal(endpoint);
      if (isLocal || this.#local.has(key)) this.#decided = undefined;
      if (isLocal) this.#local.add(key);
      else this.#local.delete(key);
    }
    for (const { added } of touched?.selectors.values() ?? []) this.#added += added.length;
  }

  /** Returns the policies that are beyond the limit, each with the reason. Members count when many have come. */
  decide(state: PolicyState, limit: number): ReadonlyMap<string, string> {
    if (this.#decided?.limit !== limit || this.#added > MANY_ADDED) {
      this.#added = 0;
      this.#decided = { limit, withheld: this.#decide(state, limit) };
    }
    return this.#decided.withheld;
  }

  #decide(state: PolicyState, limit: number): ReadonlyMap<string, string> {
    this.#wants = this.#wantsOf(state);
    const wants = [...this.#wants.values()];
    const selectors = wants.flatMap((want) => want.selectors);
    this.#sizes = new Map(selectors.map((one) => [one.text, state.memberCount(one) ?? this.#sizes.get(one.text) ?? 0]));
    const sum = new Sum(this.#sizes, wants);
    const withheld = new Map<string, string>();
    if (sum.total <= limit) return withheld;
    const groups = [...Map.groupBy(wants, ({ group }) => group).values()].map((own) => ({
      own: own.toSorted(compareAge),
      sum: new Sum(this.#sizes, own),
    }));
    const reason = `the policies of the node have more entries with it than policyEntriesPerNode, ${String(limit)}`;
    while (sum.total > limit) {
      const largest = groups.reduce((most, group) => (group.sum.total > most.sum.total ? group : most));
      const youngest = largest.own.pop();
      if (youngest === undefined) break;
      withheld.set(youngest.id, reason);
      for (const each of [sum, largest.sum]) each.remove(youngest);
    }
    return withheld;
  }

  #isLocal({ kind, node, interfaceName }: PolicyEndpoint): boolean {
    return node === this.#node && (kind === 'host' || interfaceName !== undefined);
  }

  #wantsOf(state: PolicyState): Map<string, Want> {
    const places = new Map<string, { readonly policy: ResolvedPolicy; count: number }>();
    for (const list of this.#listsOf(state))
      for (const policy of list) {
        const place = places.get(policy.id) ?? { policy, count: 0 };
        place.count += 1;
        places.set(policy.id, place);
      }
    return new Map(Array.from(places, ([id, { policy, count }]) => [id, this.#wantOf(state, policy, count)]));
  }

  /** Returns the lists of policies that packets of the endpoints of the node may reach, each once. */
  #listsOf(state: PolicyState): Iterable<readonly ResolvedPolicy[]> {
    const lists = new Map<string, readonly ResolvedPolicy[]>();
    for (const key of this.#local) {
      const endpoint = state.endpoints.get(key);
      if (endpoint === undefined) continue;
      for (const tier of state.tiers)
        for (const direction of DIRECTIONS) {
          const applied = state.policiesOf(endpoint, tier, direction);
          const end = applied.findIndex(({ id, isStaged }) => !isStaged && isClosedElsewhere(state, id));
          const list = end === -1 ? applied : applied.slice(0, end);
          lists.set([direction, ...list.map(({ id }) => id)].join('\n'), list);
        }
    }
    return lists.values();
  }

  #wantOf(state: PolicyState, policy: ResolvedPolicy, places: number): Want {
    const { id } = policy;
    const known = this.#wants.get(id);
    const { namespace, entries = 0, createdAt = '' } = state.claimOf(id) ?? {};
    const isClosed = state.refused.has(id);
    const selectors = isClosed ? (known?.selectors ?? []) : selectorsOf(policy);
    // What is beyond another budget takes nothing here.
    const taken = isClosedElsewhere(state, id) ? 0 : entries + ENTRIES_OF_ONE + (places - 1) * ENTRIES_OF_PLACE;
    return { id, group: namespace ?? id, createdAt, entries: taken, selectors };
  }
}

/** Reports whether the policy is closed for another reason than this budget. */
function isClosedElsewhere(state: PolicyState, id: string): boolean {
  return state.refused.has(id) && !state.isWithheld(id);
}

/** What policies take together. Each selector counts once. */
class Sum {
  total = 0;
  readonly #sizes: ReadonlyMap<string, number>;
  /** How many of the policies have the selector, by text. */
  readonly #uses = new Map<string, number>();

  constructor(sizes: ReadonlyMap<string, number>, wants: readonly Want[]) {
    this.#sizes = sizes;
    for (const want of wants) this.#count(want, 1);
  }

  remove(want: Want): void {
    this.#count(want, -1);
  }

  #count({ entries, selectors }: Want, change: 1 | -1): void {
    this.total += change * entries;
    for (const { text } of selectors) {
      const before = this.#uses.get(text) ?? 0;
      this.#uses.set(text, before + change);
      if (before === 0 || before + change === 0) this.total += change * (this.#sizes.get(text) ?? 0);
    }
  }
}

const found = new WeakMap<ResolvedPolicy, readonly PeerSelector[]>();

function selectorsOf(policy: ResolvedPolicy): readonly PeerSelector[] {
  const known = found.get(policy);
  if (known !== undefined) return known;
  const rules = DIRECTIONS.flatMap((direction) => policy.rules[direction] ?? []);
  const peers = rules.flatMap(({ source, destination }) => [source, destination]);
  const selectors = peers.flatMap(({ selector, notSelector }) =>
    [selector, notSelector].filter((each) => each !== undefined),
  );
  const distinct = [...new Map(selectors.map((each) => [each.text, each])).values()];
  found.set(policy, distinct);
  return distinct;
}
