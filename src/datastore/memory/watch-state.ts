import type { NodeName } from '../../model/names.ts';
import { type Found, NodeFeed } from '../node-feed.ts';
import type { NodeChange } from '../watch-store.ts';
import { type MemoryRecord, type MemoryState, UNREADABLE } from './memory-database.ts';
import { endpointsOn, problemWith, settingsIn } from './read-state.ts';

/** What changes for the node with each new state. */
export async function* watchState(
  states: AsyncIterable<{ readonly before: MemoryState | undefined; readonly state: MemoryState }>,
  node: NodeName,
): AsyncGenerator<NodeChange> {
  const feed = new NodeFeed(node);
  for await (const { before, state } of states) {
    const changes = feedState(feed, node, { before, state });
    if (before === undefined) yield feed.all();
    else yield* changes;
  }
}

function feedState(
  feed: NodeFeed,
  node: NodeName,
  { before, state }: { readonly before: MemoryState | undefined; readonly state: MemoryState },
): NodeChange[] {
  const blocks = new Set([...(before?.blocks.keys() ?? []), ...state.blocks.keys()]);
  const [had, has] = [before === undefined ? undefined : endpointsOn(before, node), endpointsOn(state, node)];
  const endpoints = new Set([...(had?.keys() ?? []), ...has.keys()]);
  return [
    ...feed.settings(settingsIn(state, node)),
    ...[...blocks].flatMap((id) => feed.block(id, found(state.blocks.get(id), `block ${id}`))),
    ...[...endpoints].flatMap((key) => feed.endpoint(key, found(has.get(key), `endpoint ${key}`))),
  ];
}

function found<T>(record: MemoryRecord<T> | undefined, what: string): Found<T> {
  if (record === undefined) return undefined;
  const { value, version } = record;
  return value === UNREADABLE ? { problem: problemWith(what) } : { value, version };
}
