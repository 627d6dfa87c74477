import { never } from '../base/errors.ts';
import { DERIVED_FROM, type FollowStore, type Query } from '../datastore/follow.ts';
import { unversioned } from '../datastore/stored-resource.ts';
import { type AnyResource, POLICY_KINDS } from '../model/kinds.ts';
import type { ResourceId } from '../model/resource-id.ts';
import type { ServiceEndpoints } from '../model/service-endpoints.ts';
import type { NodeName } from '../model/names.ts';
import { EndpointJoin } from '../model/join-endpoint.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { type Delta, RecordCache } from './record-cache.ts';

/** The new state of one record. A record without a value was deleted, or cannot be read if it has a problem. */
export type PolicyRecord =
  | {
      readonly kind: 'resource';
      readonly which: ResourceId;
      readonly value: AnyResource | undefined;
      readonly problem?: string | undefined;
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

/** Returns the queries of an agent of the node, or of a tool; nodes as routes need them, which heartbeats do not change. */
export function policyQueries(node?: NodeName): readonly Query[] {
  return [
    ...nodeQueries(node),
    ...POLICY_KINDS.map((of) => ({ kind: 'resources', of }) as const),
    ...DERIVED_FROM.map((from) => ({ kind: 'derived-resources', from }) as const),
    { kind: 'pods' },
    { kind: 'endpoints' },
    { kind: 'service-endpoints' },
  ];
}

/** Their tunnel addresses stand for them. */
function nodeQueries(node: NodeName | undefined): readonly Query[] {
  if (node === undefined) return [{ kind: 'resources', of: 'Node' }];
  return [
    { kind: 'resources', of: 'Node', name: node },
    { kind: 'other-nodes', self: node },
  ];
}

/** What is known of the records. */
export class PolicyCache {
  /** The node of the agent that reads; undefined for a tool. */
  readonly node: NodeName | undefined;
  readonly records = new RecordCache();
  readonly endpoints = new EndpointJoin();

  constructor(node?: NodeName) {
    this.node = node;
  }
}

/**
 * Follows what decides which traffic endpoints may have. The first change has every record that differs from the cache,
 * which may be that of an earlier call.
 */
export async function* followPolicyRecords(
  store: FollowStore,
  cache: PolicyCache,
  signal: AbortSignal,
): AsyncGenerator<PolicyRecordChange> {
  const queries = policyQueries(cache.node);
  for await (const event of store.follow(queries, { signal })) {
    const deltas = cache.records.apply(event);
    if (deltas.length === 0 && event.kind === 'changes') continue;
    yield {
      records: deltas.flatMap((delta) => changeOf(delta, queries[delta.after.query]?.kind, cache.endpoints)),
      problems: deltas.flatMap(({ before, after }) =>
        after.problem === undefined || after.problem === before?.problem ? [] : [after.problem],
      ),
    };
  }
}

function changeOf(
  { before, after }: Delta,
  from: Query['kind'] | undefined,
  endpoints: EndpointJoin,
): readonly PolicyRecord[] {
  switch (after.kind) {
    case 'resource': {
      const { which, value, problem } = after;
      return [{ kind: 'resource', which, value: value === undefined ? undefined : unversioned(value), problem }];
    }
    case 'endpoint': {
      const last = before?.kind === 'endpoint' ? before.value : undefined;
      const joined = endpoints.take(from === 'pods' ? 'pods' : 'endpoints', { before: last, after: after.value });
      return joined.map((each) => ({ kind: 'endpoint', ...each }));
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
