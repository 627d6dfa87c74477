import { getOrInsert } from '../base/get-or-insert.ts';
import { compareAge, ENTRIES_OF_ONE } from './policy-budgets.ts';
import type { PolicyState } from './policy-state.ts';
import type { TouchedPolicy } from './policy-view.ts';
import type { PolicyDirection, PolicyEndpoint, ResolvedPolicy } from './resolved-policy.ts';
import { contentsOf, keyOfContent, type SetContent } from './set-content.ts';

const DIRECTIONS: readonly PolicyDirection[] = ['ingress', 'egress'];

const MANY_ADDED = 1000;

/** What a policy of a namespace takes for a place in each further list. Pods to which the same policies apply share one list. */
const ENTRIES_OF_PLACE = 8;

/** What a policy that applies on the node takes in its kernel. */
interface Want {
  readonly id: string;
  /** The policies of a namespace share; a global policy is alone. */
  readonly group: string;
  readonly createdAt: string;
  readonly entries: number;
  /** Of the sets that its rules look up, by key. */
  readonly contents: ReadonlyMap<string, SetContent>;
}

/**
 * Decides which policies that apply on a node are within what its kernel has room for: their entries, their places in the lists of
 * pods, and the elements of the sets that their rules look up: members of selectors, named ports, services, and tunnel addresses of
 * nodes. Those of the namespace that takes most give way first, the youngest first.
 */
export class NodeBudget {
  readonly #node: string;
  /** Keys of the endpoints of the node. */
  readonly #local = new Set<string>();
  /** By id. Of a policy that is closed, as it was before. */
  #wants = new Map<string, Want>();
  /** Sets that the wants look up, by key of the content. */
  #contents: ReadonlyMap<string, SetContent> = new Map();
  /** Elements of the sets when they were counted last. */
  #sizes = new Map<string, number>();

  /** The last decision, as long as nothing changed that it depends on. */
  #decided: { readonly limit: number; readonly withheld: ReadonlyMap<string, string> } | undefined;
  /** Elements that sets have got may be many more than they were. */
  #isGrown = false;

  constructor(node: string) {
    this.#node = node;
  }

  /** Notes what has changed in the state; undefined for everything. */
  take(state: PolicyState, touched: Omit<TouchedPolicy, 'profiles'> | undefined): void {
    if (touched === undefined || touched.policies.size > 0) this.#decided = undefined;
    for (const key of touched?.endpoints ?? state.endpoints.keys()) {
      const endpoint = state.endpoints.get(key);
      const isLocal = endpoint !== undefined && this.#isLocal(endpoint);
      if (isLocal || this.#local.has(key)) this.#decided = undefined;
      if (isLocal) this.#local.add(key);
      else this.#local.delete(key);
    }
    const { selectors, namedPorts, services, nodes } = touched ?? {};
    this.#isGrown ||= [selectors, namedPorts, services, nodes].some((each) => (each?.size ?? 0) > 0);
  }

  /** Returns the policies that are beyond the limit, each with the reason. Elements of sets count when many have come. */
  decide(state: PolicyState, limit: number): ReadonlyMap<string, string> {
    if (this.#decided?.limit !== limit || (this.#isGrown && this.#growth(state) > MANY_ADDED)) {
      this.#decided = { limit, withheld: this.#decide(state, limit) };
    }
    this.#isGrown = false;
    return this.#decided.withheld;
  }

  /** Returns how many elements the sets have got since they were counted. */
  #growth(state: PolicyState): number {
    let growth = 0;
    for (const [key, content] of this.#contents) {
      const known = this.#sizes.get(key) ?? 0;
      growth += Math.max(0, (state.sizeOf(content) ?? known) - known);
    }
    return growth;
  }

  #decide(state: PolicyState, limit: number): ReadonlyMap<string, string> {
    this.#wants = this.#wantsOf(state);
    const wants = [...this.#wants.values()];
    this.#contents = new Map(wants.flatMap((want) => [...want.contents]));
    this.#sizes = new Map(
      Array.from(this.#contents, ([key, content]) => [key, state.sizeOf(content) ?? this.#sizes.get(key) ?? 0]),
    );
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
        getOrInsert(places, policy.id, () => ({ policy, count: 0 })).count += 1;
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
    const contents = isClosed ? (known?.contents ?? NO_CONTENTS) : contentsOfPolicy(policy);
    // What is beyond another budget takes nothing here.
    // Users of a namespace decide how many lists there are of policies of others, too.
    const ofPlaces = namespace === undefined ? 0 : (places - 1) * ENTRIES_OF_PLACE;
    const taken = isClosedElsewhere(state, id) ? 0 : entries + ENTRIES_OF_ONE + ofPlaces;
    return { id, group: namespace ?? id, createdAt, entries: taken, contents };
  }
}

/** Reports whether the policy is closed for another reason than this budget. */
function isClosedElsewhere(state: PolicyState, id: string): boolean {
  return state.refused.has(id) && !state.isWithheld(id);
}

/** What policies take together. Each set counts once. */
class Sum {
  total = 0;
  readonly #sizes: ReadonlyMap<string, number>;
  /** How many of the policies look the set up, by key. */
  readonly #uses = new Map<string, number>();

  constructor(sizes: ReadonlyMap<string, number>, wants: readonly Want[]) {
    this.#sizes = sizes;
    for (const want of wants) this.#count(want, 1);
  }

  remove(want: Want): void {
    this.#count(want, -1);
  }

  #count({ entries, contents }: Want, change: 1 | -1): void {
    this.total += change * entries;
    for (const key of contents.keys()) {
      const before = this.#uses.get(key) ?? 0;
      this.#uses.set(key, before + change);
      if (before === 0 || before + change === 0) this.total += change * (this.#sizes.get(key) ?? 0);
    }
  }
}

const NO_CONTENTS: ReadonlyMap<string, SetContent> = new Map();
const found = new WeakMap<ResolvedPolicy, ReadonlyMap<string, SetContent>>();

function contentsOfPolicy(policy: ResolvedPolicy): ReadonlyMap<string, SetContent> {
  return getOrInsert(found, policy, () => {
    const contents = contentsOf(DIRECTIONS.flatMap((direction) => policy.rules[direction] ?? []));
    return new Map(contents.map((each) => [keyOfContent(each), each]));
  });
}
