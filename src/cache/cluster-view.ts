import { isDeepStrictEqual } from 'node:util';
import type { FollowStore, Query, RoutedBlock } from '../datastore/follow.ts';
import { unversioned } from '../datastore/stored-resource.ts';
import type { ResourceOf } from '../model/kinds.ts';
import type { NodeName } from '../model/names.ts';
import { type Cidr, parseCidr } from '../net/cidr.ts';
import { type Delta, RecordCache } from './record-cache.ts';

/** A resource that routes between nodes depend on. */
export type RoutingResource = ResourceOf<'IPPool' | 'Node' | 'BGPConfiguration' | 'BGPPeer'>;

/** One change of the records that routes depend on. Resources have no version, and changes of only the version are skipped. */
export type ClusterChange =
  /** Replaces everything known before. Always the first. */
  | {
      readonly kind: 'all';
      /** Every readable pool, node and BGP resource, unordered. */
      readonly resources: readonly RoutingResource[];
      readonly blocks: readonly RoutedBlock[];
      /** Records that could not be understood and were left out, for a warning each. */
      readonly problems: readonly string[];
    }
  /** Undefined when it is deleted or unreadable. */
  | {
      readonly kind: 'resource';
      readonly which: { readonly kind: RoutingResource['kind']; readonly name: string };
      readonly resource: RoutingResource | undefined;
      /** Reason why the record, or a part of it, cannot be read. */
      readonly problem?: string;
    }
  | {
      readonly kind: 'block';
      readonly cidr: Cidr;
      readonly block: RoutedBlock | undefined;
      /** The part of the record that could not be read. */
      readonly problem?: string;
    };

export function clusterQueries(self: NodeName): readonly Query[] {
  return [
    { kind: 'resources', of: 'IPPool' },
    { kind: 'resources', of: 'BGPConfiguration' },
    { kind: 'resources', of: 'BGPPeer' },
    { kind: 'resources', of: 'Node', name: self },
    { kind: 'other-nodes', self },
    { kind: 'block-routes' },
  ];
}

/** Follows the records that routes between nodes depend on, for the agent of a node. */
export async function* followCluster(
  store: FollowStore,
  self: NodeName,
  signal: AbortSignal,
): AsyncGenerator<ClusterChange> {
  const cache = new RecordCache();
  let isFirst = true;
  for await (const event of store.follow(clusterQueries(self), { signal })) {
    const deltas = cache.apply(event);
    if (isFirst) yield everything(cache);
    else yield* deltas.flatMap(changeOf);
    isFirst = false;
  }
}

function everything(cache: RecordCache): ClusterChange {
  const resources: RoutingResource[] = [];
  const blocks: RoutedBlock[] = [];
  const problems: string[] = [];
  for (const record of cache.records()) {
    if (record.problem !== undefined) problems.push(record.problem);
    if (record.value === undefined) continue;
    if (record.kind === 'route') blocks.push(record.value);
    // The queries return only routing resources.
    if (record.kind === 'resource') resources.push(unversioned(record.value) as RoutingResource);
  }
  return { kind: 'all', resources, blocks, problems };
}

function changeOf({ before, after }: Delta): readonly ClusterChange[] {
  const problem = after.problem === undefined ? {} : { problem: after.problem };
  if (after.kind === 'route') return [{ kind: 'block', cidr: parseCidr(after.key), block: after.value, ...problem }];
  if (after.kind !== 'resource') return [];
  const resource = after.value === undefined ? undefined : unversioned(after.value);
  const known = before?.kind === 'resource' && before.value !== undefined ? unversioned(before.value) : undefined;
  if (before?.problem === after.problem && isDeepStrictEqual(known, resource)) return [];
  // The queries return only routing resources.
  const which = { kind: after.which.kind as RoutingResource['kind'], name: after.which.name };
  return [{ kind: 'resource', which, resource: resource as RoutingResource | undefined, ...problem }];
}
