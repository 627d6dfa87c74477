import type { ResourceKind } from '../../model/kinds.ts';
import { ResourceFeed } from '../resource-feed.ts';
import type { ResourceChange } from '../watch-store.ts';
import type { MemoryState } from './memory-database.ts';
import { sightings } from './read-state.ts';

/** What changes for the resources of a kind with each new state. */
export async function* watchResources<K extends ResourceKind>(
  states: AsyncIterable<{ readonly before: MemoryState | undefined; readonly state: MemoryState }>,
  kind: K,
): AsyncGenerator<ResourceChange<K>> {
  const feed = new ResourceFeed(kind);
  for await (const { before, state } of states) {
    const changes = feed.replace(sightings(state, kind));
    if (before === undefined) yield feed.all();
    else yield* changes;
  }
}
