import { aborted } from '../../base/until-aborted.ts';
import type { FollowEvent, FollowOptions, FollowStore, Query } from '../../datastore/follow.ts';

/** Returns a store in which the queries that are meant find nothing, without asking the datastore. */
export function emptySource(store: FollowStore, isMeant: (query: Query) => boolean): FollowStore {
  return {
    follow: (queries: readonly Query[], options: FollowOptions): AsyncIterable<FollowEvent> =>
      queries.every(isMeant) ? nothing(options) : store.follow(queries, options),
  };
}

async function* nothing({ signal }: FollowOptions): AsyncGenerator<FollowEvent> {
  yield { kind: 'snapshot', records: [], version: '' };
  await aborted(signal);
}
