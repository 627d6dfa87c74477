import type { TouchedPolicy } from './policy-view.ts';
import type { resolvePolicy } from './resolve-policy.ts';

/** Items that changes of records touch, collected while they are applied. */
export interface Touches extends Readonly<Record<Exclude<keyof TouchedPolicy, 'selectors'>, Set<string>>> {
  /** Keys of what must be settled again. */
  readonly unsettled: Set<string>;
  /** Policies to settle, by id, as they were resolved; undefined for those that only other policies have changed. */
  readonly unsettledPolicies: Map<string, ReturnType<typeof resolvePolicy> | undefined>;
}

export function noTouches(): Touches {
  return {
    endpoints: new Set(),
    policies: new Set(),
    profiles: new Set(),
    namedPorts: new Set(),
    services: new Set(),
    nodes: new Set(),
    accounts: new Set(),
    guards: new Set(),
    unsettled: new Set(),
    unsettledPolicies: new Map(),
  };
}
