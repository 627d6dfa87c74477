import { reasonOf } from '../base/errors.ts';
import type { AnyResource } from '../model/kinds.ts';
import type { ResourceId } from '../model/resource-id.ts';
import type { ServiceEndpoints } from '../model/service-endpoints.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { AddressPort } from './policy-view.ts';

/** The new state of one record. One without a value was deleted, or cannot be read if it has a problem. */
export type PolicyChange =
  | {
      readonly kind: 'resource';
      readonly which: ResourceId;
      readonly value?: AnyResource | undefined;
      readonly problem?: string | undefined;
    }
  /** The key identifies the record among all endpoints. */
  | { readonly kind: 'endpoint'; readonly key: string; readonly value?: WorkloadEndpoint | undefined }
  /** Several records may belong to one service. */
  | { readonly kind: 'service'; readonly key: string; readonly value?: ServiceEndpoints | undefined }
  /** Addresses and TCP ports of a pod of this node behind which each request is shown to be judged; the key is the pod's. */
  | { readonly kind: 'guard'; readonly key: string; readonly value?: readonly AddressPort[] | undefined };

export type ChangedResource = Extract<PolicyChange, { readonly kind: 'resource' }>;

/** Returns what to apply in place of a change that failed: the same record, as one that cannot be read. */
export function unreadable(change: PolicyChange, cause: unknown): PolicyChange {
  return change.kind === 'resource' ? unreadableResource(change, cause) : { kind: change.kind, key: change.key };
}

export function unreadableResource({ which }: Pick<ChangedResource, 'which'>, cause: unknown): ChangedResource {
  return { kind: 'resource', which, problem: `it cannot be applied: ${reasonOf(cause)}` };
}
