import { canonicalSelector, evaluateSelector, type Labels } from '../model/selector.ts';
import type { PolicyDirection, PolicyEndpoint, PolicyTier, ResolvedPolicy } from './resolved-policy.ts';
import { compareOrder, type OrderedPolicy } from './resolve-policy.ts';
import { SelectorIndex } from './selector-index.ts';

/** All policies, and which of them apply to which endpoint. */
export class AppliedPolicies {
  readonly #byId = new Map<string, OrderedPolicy>();
  readonly #index = new SelectorIndex<OrderedPolicy>();
  readonly #ofEndpoint = new Map<string, Set<OrderedPolicy>>();
  readonly #endpointsOf = new Map<OrderedPolicy, Set<string>>();
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
    const isSameSelector =
      before !== undefined &&
      next !== undefined &&
      canonicalSelector(before.policy.appliesTo) === canonicalSelector(next.policy.appliesTo);
    // What may fail comes before the first change.
    const selected = new Set<string>();
    if (next !== undefined && !isSameSelector) {
      for (const { key, labels } of endpoints) if (evaluateSelector(next.policy.appliesTo, labels)) selected.add(key);
    }
    if (next !== undefined) this.#index.add(next.policy.appliesTo, next);
    const left = before === undefined ? new Set<string>() : this.#remove(id, before);
    this.#tiers = undefined;
    if (next === undefined) return left;
    const keys = isSameSelector ? left : selected;
    this.#byId.set(id, next);
    for (const key of keys) this.#ofEndpoint.get(key)?.add(next);
    this.#endpointsOf.set(next, new Set(keys));
    return left.union(keys);
  }

  /** Finds the policies of an endpoint whose labels are new; undefined for one that is gone. */
  settle(key: string, labels: Labels | undefined): void {
    for (const policy of this.#ofEndpoint.get(key) ?? []) this.#endpointsOf.get(policy)?.delete(key);
    this.#ofEndpoint.delete(key);
    if (labels === undefined) return;
    const policies = this.#matching(labels);
    this.#ofEndpoint.set(key, policies);
    for (const policy of policies) this.#endpointsOf.get(policy)?.add(key);
  }

  /** Returns those of an endpoint in the direction, in order. Pods have no policies of stages before the filter. */
  policiesOf(endpoint: PolicyEndpoint, direction: PolicyDirection): ResolvedPolicy[] {
    const applied = this.#ofEndpoint.get(endpoint.key) ?? this.#matching(endpoint.labels);
    return [...applied]
      .toSorted(compareOrder)
      .map(({ policy }) => policy)
      .filter(
        (policy) => policy.rules[direction] !== undefined && (endpoint.kind === 'host' || policy.stage === 'normal'),
      );
  }

  #remove(id: string, policy: OrderedPolicy): Set<string> {
    const keys = this.#endpointsOf.get(policy) ?? new Set<string>();
    for (const key of keys) this.#ofEndpoint.get(key)?.delete(policy);
    this.#endpointsOf.delete(policy);
    this.#byId.delete(id);
    this.#index.remove(policy.policy.appliesTo, policy);
    return keys;
  }

  #matching(labels: Labels): Set<OrderedPolicy> {
    const candidates = [...this.#index.candidates(labels)];
    return new Set(candidates.filter(({ policy }) => evaluateSelector(policy.appliesTo, labels)));
  }
}
