import { evaluateSelector, type Labels } from '../model/selector.ts';
import type { PolicyDirection, PolicyEndpoint, PolicyTier, ResolvedPolicy } from './resolved-policy.ts';
import { compareOrder, type OrderedPolicy } from './resolve-policy.ts';
import { SelectorIndex } from './selector-index.ts';

/** All policies, and which of them apply to which endpoint. */
export class AppliedPolicies {
  readonly #byId = new Map<string, OrderedPolicy>();
  readonly #index = new SelectorIndex<OrderedPolicy>();
  readonly #ofEndpoint = new Map<string, Set<OrderedPolicy>>();
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
    const keys = new Set<string>();
    const before = this.#byId.get(id);
    if (before !== undefined) {
      this.#byId.delete(id);
      this.#index.remove(before.policy.appliesTo, before);
      for (const [key, policies] of this.#ofEndpoint) if (policies.delete(before)) keys.add(key);
    }
    this.#tiers = undefined;
    if (next === undefined) return keys;
    this.#byId.set(id, next);
    this.#index.add(next.policy.appliesTo, next);
    for (const { key, labels } of endpoints) {
      if (!evaluateSelector(next.policy.appliesTo, labels)) continue;
      this.#ofEndpoint.get(key)?.add(next);
      keys.add(key);
    }
    return keys;
  }

  /** Finds the policies of an endpoint whose labels are new; undefined for one that is gone. */
  settle(key: string, labels: Labels | undefined): void {
    if (labels === undefined) this.#ofEndpoint.delete(key);
    else this.#ofEndpoint.set(key, this.#matching(labels));
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

  #matching(labels: Labels): Set<OrderedPolicy> {
    const candidates = [...this.#index.candidates(labels)];
    return new Set(candidates.filter(({ policy }) => evaluateSelector(policy.appliesTo, labels)));
  }
}
