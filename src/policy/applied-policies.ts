import { firstIndex } from '../base/first-index.ts';
import { getOrInsert } from '../base/get-or-insert.ts';
import { canonicalSelector, evaluateSelector, type Labels } from '../model/selector.ts';
import type { PolicyDirection, PolicyEndpoint, PolicyTier, ResolvedPolicy } from './resolved-policy.ts';
import { compareOrder, type OrderedPolicy } from './resolve-policy.ts';
import { SelectorIndex } from './selector-index.ts';

/** All policies, and which of them apply to which endpoint. */
export class AppliedPolicies {
  readonly #byId = new Map<string, OrderedPolicy>();
  readonly #index = new SelectorIndex<OrderedPolicy>();
  /** Policies that apply to the endpoints that were asked for, in order. Most pods of a cluster are on other nodes. */
  readonly #ofEndpoint = new WeakMap<PolicyEndpoint, OrderedPolicy[]>();
  #tiers: readonly PolicyTier[] | undefined;

  /** Every policy is in the tier `default`. */
  get tiers(): readonly PolicyTier[] {
    this.#tiers ??= [
      {
        name: 'default',
        defaultAction: 'Deny',
        policies: [...this.#byId.values()].toSorted(compareOrder).map(({ policy }) => policy),
      },
    ];
    return this.#tiers;
  }

  find(id: string): OrderedPolicy | undefined {
    return this.#byId.get(id);
  }

  /** Adds, replaces or removes the policy of the id, and returns the keys of endpoints that it applied or applies to. */
  replace(id: string, next: OrderedPolicy | undefined, endpoints: Iterable<PolicyEndpoint>): Set<string> {
    const before = this.#byId.get(id);
    const isSame = before !== undefined && next !== undefined && selectSame(before, next);
    const keys = new Set<string>();
    const affected: { readonly endpoint: PolicyEndpoint; readonly isNext: boolean }[] = [];
    // What may fail comes before the first change.
    for (const endpoint of endpoints) {
      const isNext = next !== undefined && evaluateSelector(next.policy.appliesTo, endpoint.labels);
      const isBefore = isSame
        ? isNext
        : before !== undefined && evaluateSelector(before.policy.appliesTo, endpoint.labels);
      if (isBefore || isNext) keys.add(endpoint.key);
      if (isBefore || isNext) affected.push({ endpoint, isNext });
    }
    if (next !== undefined) this.#index.add(next.policy.appliesTo, next);
    if (before !== undefined) this.#index.remove(before.policy.appliesTo, before);
    if (next === undefined) this.#byId.delete(id);
    else this.#byId.set(id, next);
    this.#tiers = undefined;
    for (const { endpoint, isNext } of affected) {
      const list = this.#ofEndpoint.get(endpoint);
      if (list !== undefined) replaceIn(list, before, isNext ? next : undefined);
    }
    return keys;
  }

  /** Returns those of an endpoint in the direction, in order. Pods have no policies of stages before the filter. */
  policiesOf(endpoint: PolicyEndpoint, direction: PolicyDirection): ResolvedPolicy[] {
    const applied = getOrInsert(this.#ofEndpoint, endpoint, () => this.#matching(endpoint.labels));
    const isMet = ({ rules, stage }: ResolvedPolicy): boolean =>
      rules[direction] !== undefined && (endpoint.kind === 'host' || stage === 'normal');
    return applied.flatMap(({ policy }) => (isMet(policy) ? [policy] : []));
  }

  #matching(labels: Labels): OrderedPolicy[] {
    return [...this.#index.candidates(labels)]
      .filter(({ policy }) => evaluateSelector(policy.appliesTo, labels))
      .toSorted(compareOrder);
  }
}

function selectSame(a: OrderedPolicy, b: OrderedPolicy): boolean {
  return canonicalSelector(a.policy.appliesTo) === canonicalSelector(b.policy.appliesTo);
}

/** Replaces a policy in a list that is in order. */
function replaceIn(list: OrderedPolicy[], before: OrderedPolicy | undefined, next: OrderedPolicy | undefined): void {
  const at = before === undefined ? -1 : placeIn(list, before);
  const isThere = at !== -1 && list[at] === before;
  if (before !== undefined && next !== undefined && isThere && compareOrder(before, next) === 0) {
    list[at] = next;
    return;
  }
  if (isThere) list.splice(at, 1);
  if (next !== undefined) list.splice(placeIn(list, next), 0, next);
}

/** Returns the position of the policy in the list, or the one that it would have. */
function placeIn(list: readonly OrderedPolicy[], policy: OrderedPolicy): number {
  return firstIndex(list.length, (index) => {
    const other = list[index];
    return other !== undefined && compareOrder(other, policy) < 0;
  });
}
