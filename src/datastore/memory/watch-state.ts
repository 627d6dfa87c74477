import { Channel } from '../../base/channel.ts';
import type { NodeName } from '../../model/names.ts';
import { type Found, NodeFeed } from '../node-feed.ts';
import type { NodeChange } from '../store.ts';
import { type MemoryDatabase, type MemoryRecord, type MemoryState, UNREADABLE } from './memory-database.ts';
import { endpointsOn, problemWith, settingsIn } from './read-state.ts';

/** What changes for the node with each new state. `look` lets it see one, or throws when the thread is lost. */
export async function* watchState(
  database: MemoryDatabase,
  { node, look }: { readonly node: NodeName; readonly look: (state: MemoryState) => Promise<MemoryState> },
  signal: AbortSignal,
): AsyncGenerator<NodeChange> {
  const states = new Channel<MemoryState>();
  const end = (): void => states.close();
  signal.addEventListener('abort', end, { once: true });
  states.push(database.state());
  const stop = database.listen((state) => states.push(state));
  try {
    const feed = new NodeFeed(node);
    let before: MemoryState | undefined;
    for await (const next of states) {
      const state = await look(next);
      const changes = feedState(feed, node, { before, state });
      if (before === undefined) yield feed.all();
      else yield* changes;
      before = state;
    }
  } finally {
    stop();
    signal.removeEventListener('abort', end);
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
