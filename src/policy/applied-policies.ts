import { canonicalSelector, evaluateSelector, type Labels } from '../model/selector.ts';
import type { PolicyDirection, PolicyEndpoint, PolicyTier, ResolvedPolicy } from './resolved-policy.ts';
import { compareOrder, type OrderedPolicy } from './resolve-policy.ts';
import { SelectorIndex } from './selector-index.ts';

/** All policies, and which of them apply to which endpoint. */
export class AppliedPolicies {
  readonly #byId = new Map<string, OrderedPolicy>();
  readonly #index = new SelectorIndex<OrderedPolicy>();
  /** Policies that apply to the endpoints that were asked for, in order. Most pods of a cluster are on other nodes. */
  #ofEndpoint = new WeakMap<PolicyEndpoint, readonly ResolvedPolicy[]>();
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
    const selectors = [before, next].flatMap((ordered) => ordered?.policy.appliesTo ?? []);
    const texts = new Set(selectors.map(canonicalSelector));
    // What may fail comes before the first change.
    const keys = new Set<string>();
    for (const { key, labels } of endpoints)
      if (selectors.slice(0, texts.size).some((selector) => evaluateSelector(selector, labels))) keys.add(key);
    if (next !== undefined) this.#index.add(next.policy.appliesTo, next);
    if (before !== undefined) this.#index.remove(before.policy.appliesTo, before);
    if (next === undefined) this.#byId.delete(id);
    else this.#byId.set(id, next);
    this.#tiers = undefined;
    this.#ofEndpoint = new WeakMap();
    return keys;
  }

  /** Returns those of an endpoint in the direction, in order. Pods have no policies of stages before the filter. */
  policiesOf(endpoint: PolicyEndpoint, direction: PolicyDirection): ResolvedPolicy[] {
    const applied = this.#ofEndpoint.get(endpoint) ?? this.#matching(endpoint.labels);
    this.#ofEndpoint.set(endpoint, applied);
    return applied.filter(
      (policy) => policy.rules[direction] !== undefined && (endpoint.kind === 'host' || policy.stage === 'normal'),
    );
  }

  #matching(labels: Labels): readonly ResolvedPolicy[] {
    return [...this.#index.candidates(labels)]
      .filter(({ policy }) => evaluateSelector(policy.appliesTo, labels))
      .toSorted(compareOrder)
      .map(({ policy }) => policy);
  }
}
