import { atOnce } from '../../base/pieces.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { parseCidr } from '../../net/cidr.ts';
import { addressesOf, borrowersOf } from '../borrowers.ts';
import { ClusterFeed } from '../cluster-feed.ts';
import type { Seen } from '../seen.ts';
import { type ClusterChange, type RoutedBlock, ROUTING_KINDS, type RoutingResource } from '../watch-store.ts';
import { type MemoryRecord, type MemoryState, resourceIdIn, UNREADABLE } from './memory-database.ts';
import { problemWith } from './read-state.ts';

/** What changes for routes with each new state. */
export async function* watchCluster(
  states: AsyncIterable<{ readonly before: MemoryState | undefined; readonly state: MemoryState }>,
): AsyncGenerator<ClusterChange> {
  const feed = new ClusterFeed();
  for await (const { before, state } of states) {
    const changes = [...resourceChanges(feed, { before, state }), ...blockChanges(feed, { before, state })];
    if (before === undefined) yield atOnce(feed.all());
    else yield* changes;
  }
}

interface Step {
  readonly before: MemoryState | undefined;
  readonly state: MemoryState;
}

function resourceChanges(feed: ClusterFeed, { before, state }: Step): ClusterChange[] {
  const keys = new Set([...(before?.resources.keys() ?? []), ...state.resources.keys()]);
  return [...keys].flatMap((key) => {
    const { kind: ofKind, name } = resourceIdIn(key);
    const kind = ROUTING_KINDS.find((routing) => routing === ofKind);
    if (kind === undefined) return [];
    const record = state.resources.get(key);
    if (record?.value === UNREADABLE)
      return feed.resource({ kind, name }, { problem: problemWith(`${kind} "${name}"`) });
    // The key begins with the kind of its resource.
    return feed.resource({ kind, name }, { value: record?.value as RoutingResource | undefined });
  });
}

function blockChanges(feed: ClusterFeed, { before, state }: Step): ClusterChange[] {
  const ids = new Set([...(before?.blocks.keys() ?? []), ...state.blocks.keys()]);
  return [...ids].flatMap((id) => feed.block(parseCidr(id), seenBlock(id, state.blocks.get(id))));
}

function seenBlock(id: string, record: MemoryRecord<IpBlock> | undefined): Seen<RoutedBlock> {
  if (record?.value === UNREADABLE) return { problem: problemWith(`block ${id}`) };
  return { value: record === undefined ? undefined : routedBlock(record.value) };
}

function routedBlock(block: IpBlock): RoutedBlock {
  const { cidr, node } = block;
  return { cidr, node, borrowed: addressesOf(cidr, borrowersOf(block)) };
}
