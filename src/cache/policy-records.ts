import { never } from '../base/errors.ts';
import { withBuiltIns } from '../datastore/built-in.ts';
import type { FollowStore, Query } from '../datastore/follow.ts';
import { unversioned } from '../datastore/stored-resource.ts';
import type { ResourceOf } from '../model/kinds.ts';
import type { NetworkPolicy } from '../model/policy.ts';
import { API_VERSION } from '../model/resource.ts';
import type { ResourceId } from '../model/resource-id.ts';
import type { ServiceEndpoints } from '../model/service-endpoints.ts';
import { endpointIdOf, endpointKey, type WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Delta, RecordCache } from './record-cache.ts';

/** The kinds that decide which traffic endpoints may have. */
export const POLICY_KINDS = [
  'NetworkPolicy',
  'GlobalNetworkPolicy',
  'Profile',
  'NetworkSet',
  'GlobalNetworkSet',
  'HostEndpoint',
] as const;
export type PolicyResource = ResourceOf<(typeof POLICY_KINDS)[number]>;

/** The new state of one record. A record without a value is deleted. */
export type PolicyRecord =
  | {
      readonly kind: 'resource';
      readonly which: ResourceId<PolicyResource['kind']>;
      readonly value: PolicyResource | undefined;
    }
  /** The key is that of `endpointKey`. */
  | { readonly kind: 'endpoint'; readonly key: string; readonly value: WorkloadEndpoint | undefined }
  /** The key identifies the record, several of which may belong to one service. */
  | { readonly kind: 'service'; readonly key: string; readonly value: ServiceEndpoints | undefined };

export interface PolicyRecordChange {
  readonly records: readonly PolicyRecord[];
  /** Records that could not be read, a sentence each. */
  readonly problems: readonly string[];
}

export function policyQueries(): readonly Query[] {
  return [
    ...POLICY_KINDS.map((of) => ({ kind: 'resources', of }) as const),
    { kind: 'derived-resources', of: 'NetworkPolicy' },
    { kind: 'derived-resources', of: 'Profile' },
    { kind: 'cluster-endpoints' },
    { kind: 'service-endpoints' },
  ];
}

/**
 * Follows what decides which traffic endpoints may have, including built-in resources. The first change has every record that
 * differs from the cache. A cache of an earlier call makes the stream resume after it.
 */
export async function* followPolicyRecords(
  store: FollowStore,
  cache: RecordCache,
  signal: AbortSignal,
): AsyncGenerator<PolicyRecordChange> {
  const from = cache.version;
  if (from === undefined) yield { records: withBuiltIns('Profile', []).map(recordOf), problems: [] };
  for await (const event of store.follow(policyQueries(), { ...(from === undefined ? {} : { from }), signal })) {
    const deltas = cache.apply(event);
    if (deltas.length === 0 && event.kind !== 'snapshot') continue;
    yield {
      records: deltas.flatMap(changeOf),
      problems: deltas.flatMap(({ before, after }) =>
        after.problem === undefined || after.problem === before?.problem ? [] : [after.problem],
      ),
    };
  }
}

function recordOf(value: PolicyResource): PolicyRecord {
  const { kind, metadata } = value;
  const { name, namespace } = metadata;
  return { kind: 'resource', which: { kind, name, ...(namespace === undefined ? {} : { namespace }) }, value };
}

function changeOf({ before, after }: Delta): readonly PolicyRecord[] {
  switch (after.kind) {
    case 'resource': {
      // The queries return only these kinds.
      const which = after.which as ResourceId<PolicyResource['kind']>;
      if (after.value === undefined && after.problem !== undefined) return unreadable(which);
      const value = after.value === undefined ? undefined : (unversioned(after.value) as PolicyResource);
      return [{ kind: 'resource', which, value }];
    }
    case 'endpoint': {
      const ids = [before, after].flatMap((record) => (record?.kind === 'endpoint' ? (record.value ?? []) : []));
      const keys = [...new Set(ids.map((endpoint) => endpointKey(endpointIdOf(endpoint))))];
      const known = after.value === undefined ? undefined : endpointKey(endpointIdOf(after.value));
      return keys.map((key) => ({ kind: 'endpoint', key, value: key === known ? after.value : undefined }));
    }
    case 'service':
      return [{ kind: 'service', key: after.key, value: after.value }];
    // No query returns them.
    case 'block':
    case 'route':
      return [];
    default:
      return never(after);
  }
}

/**
 * A policy of a namespace that cannot be read isolates the namespace: it must not allow what its author meant to deny. Other
 * records keep their last meaning.
 */
function unreadable(which: ResourceId<PolicyResource['kind']>): readonly PolicyRecord[] {
  if (which.kind !== 'NetworkPolicy') return [];
  const { name, namespace = 'default' } = which;
  const value: NetworkPolicy = {
    apiVersion: API_VERSION,
    kind: 'NetworkPolicy',
    metadata: { name, namespace },
    spec: { selector: 'all()', types: ['Ingress', 'Egress'] },
  };
  return [{ kind: 'resource', which, value }];
}
