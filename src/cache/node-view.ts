import { isDeepStrictEqual } from 'node:util';
import type { NodeSettings, NodeView, Stored } from '../datastore/allocation-store.ts';
import { borrowersOf } from '../datastore/borrowers.ts';
import type { FollowStore, Query, ResourceRecord } from '../datastore/follow.ts';
import { settingQueries, settingsFrom } from '../datastore/node-settings.ts';
import { compareEndpointIds } from '../datastore/order.ts';
import type { IpBlock } from '../model/ip-block.ts';
import type { NodeName } from '../model/names.ts';
import { type EndpointId, endpointIdOf, type WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { type Cidr, compareCidrs } from '../net/cidr.ts';
import { type Delta, RecordCache } from './record-cache.ts';

/** One change of the records that a node needs to assign and release addresses. */
export type NodeChange =
  /** Replaces everything known before. Always the first. */
  | {
      readonly kind: 'all';
      readonly view: Omit<NodeView, 'endpoint' | 'rollbacks' | 'latest'>;
      /** The endpoints of the node, ordered by namespace and name. */
      readonly endpoints: readonly Stored<WorkloadEndpoint>[];
    }
  /** A block that the node owns or has borrowed from; undefined when deleted, unreadable, or no concern of the node. */
  | { readonly kind: 'block'; readonly cidr: Cidr; readonly block: Stored<IpBlock> | undefined }
  /** An endpoint of the node; undefined when it is deleted or unreadable. */
  | { readonly kind: 'endpoint'; readonly id: EndpointId; readonly endpoint: Stored<WorkloadEndpoint> | undefined }
  /** All present settings; their problems include those of blocks and endpoints. */
  | { readonly kind: 'settings'; readonly settings: NodeSettings };

export function nodeQueries(node: NodeName): readonly Query[] {
  return [...settingQueries(node), { kind: 'node-blocks', node }, { kind: 'endpoints', node }];
}

/** Follows the blocks, endpoints and settings of a node, from a snapshot that is not older than the call. */
export async function* followNode(store: FollowStore, node: NodeName, signal: AbortSignal): AsyncGenerator<NodeChange> {
  const cache = new RecordCache();
  let settings: NodeSettings | undefined;
  for await (const event of store.follow(nodeQueries(node), { isFresh: true, signal })) {
    const deltas = cache.apply(event);
    const now = settings !== undefined && deltas.length === 0 ? settings : settingsIn(cache);
    if (settings === undefined) yield everything(cache, node, now);
    else {
      yield* deltas.flatMap(changeOf);
      if (!isDeepStrictEqual(settings, now)) yield { kind: 'settings', settings: now };
    }
    settings = now;
  }
}

function settingsIn(cache: RecordCache): NodeSettings {
  const resources: ResourceRecord[] = [];
  const problems: string[] = [];
  for (const record of cache.records()) {
    if (record.kind === 'resource') resources.push(record);
    else if (record.problem !== undefined) problems.push(record.problem);
  }
  const settings = settingsFrom(resources);
  return { ...settings, problems: [...settings.problems, ...problems].sort() };
}

function everything(cache: RecordCache, node: NodeName, settings: NodeSettings): NodeChange {
  const blocks: Stored<IpBlock>[] = [];
  const endpoints: Stored<WorkloadEndpoint>[] = [];
  for (const record of cache.records()) {
    if (record.value === undefined) continue;
    if (record.kind === 'block') blocks.push({ value: record.value, version: record.version });
    if (record.kind === 'endpoint') endpoints.push({ value: record.value, version: record.version });
  }
  blocks.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr));
  return {
    kind: 'all',
    view: {
      ...settings,
      owned: blocks.filter(({ value }) => value.node === node),
      borrowed: blocks.filter(({ value }) => value.node !== node && borrowersOf(value).has(node)),
    },
    endpoints: endpoints.sort((a, b) => compareEndpointIds(endpointIdOf(a.value), endpointIdOf(b.value))),
  };
}

/** Returns the change for the view. A record that became unreadable counts as deleted; the settings have its problem. */
function changeOf({ before, after }: Delta): readonly NodeChange[] {
  if (after.kind === 'block') {
    const known = after.value ?? (before?.kind === 'block' ? before.value : undefined);
    return known === undefined ? [] : [{ kind: 'block', cidr: known.cidr, block: stored(after) }];
  }
  if (after.kind !== 'endpoint') return [];
  const known = after.value ?? (before?.kind === 'endpoint' ? before.value : undefined);
  return known === undefined ? [] : [{ kind: 'endpoint', id: endpointIdOf(known), endpoint: stored(after) }];
}

function stored<T>({
  value,
  version,
}: {
  readonly value?: T | undefined;
  readonly version: string;
}): Stored<T> | undefined {
  return value === undefined ? undefined : { value, version };
}
