import { mergeStreams } from '../base/merge-streams.ts';
import {
  type FollowedRecord,
  type FollowEvent,
  eventsUntilAborted,
  type FollowOptions,
  type FollowStore,
  type Query,
} from './follow.ts';

/** A store, and the indexes of the queries that it answers. */
interface Part {
  readonly store: FollowStore;
  readonly indexes: readonly number[];
}

/** Follows the queries of which `isShared` is true in one store and the others in another, as one stream. */
export class JoinedFollow implements FollowStore {
  readonly #shared: FollowStore;
  readonly #own: FollowStore;
  readonly #isShared: (query: Query) => boolean;

  constructor(
    stores: { readonly shared: FollowStore; readonly own: FollowStore },
    isShared: (query: Query) => boolean,
  ) {
    this.#shared = stores.shared;
    this.#own = stores.own;
    this.#isShared = isShared;
  }

  /** Always begins with a snapshot. */
  async *follow(queries: readonly Query[], { isFresh = false, signal }: FollowOptions): AsyncGenerator<FollowEvent> {
    const indexes = [...queries.keys()];
    const isShared = (index: number): boolean => queries.slice(index, index + 1).some(this.#isShared);
    const parts = [
      { store: this.#shared, indexes: indexes.filter(isShared) },
      { store: this.#own, indexes: indexes.filter((index) => !isShared(index)) },
    ].filter((part) => part.indexes.length > 0);
    // A snapshot replaces all records, so that one of a part alone cannot be passed on: both begin again.
    while (!signal.aborted) yield* eventsUntilAborted(followOnce(parts, queries, { isFresh, signal }), signal);
  }
}

/** Returns when a part yields another snapshot. */
async function* followOnce(
  parts: readonly Part[],
  queries: readonly Query[],
  { isFresh, signal }: Required<Pick<FollowOptions, 'isFresh' | 'signal'>>,
): AsyncGenerator<FollowEvent> {
  const begin = (either: AbortSignal): AsyncIterable<FollowEvent>[] =>
    parts.map(({ store, indexes }) =>
      store.follow(
        indexes.flatMap((index) => queries[index] ?? []),
        { isFresh, signal: either },
      ),
    );
  const versions = parts.map(() => '');
  const missing = new Set(parts.keys());
  const records: FollowedRecord[] = [];
  /** Events after the snapshot of a part before all have come. */
  const early: FollowEvent[] = [];
  for await (const { index: part, item } of mergeStreams(begin, signal)) {
    const event = renumbered(item, parts[part]?.indexes ?? []);
    const isSnapshot = event.kind === 'snapshot';
    if (isSnapshot && !missing.delete(part)) return;
    versions[part] = event.version;
    const version = JSON.stringify(versions);
    if (isSnapshot) for (const record of event.records) records.push(record);
    if (missing.size > 0) {
      if (!isSnapshot) early.push(event);
    } else if (isSnapshot) {
      yield { kind: 'snapshot', records: records.splice(0), version };
      for (const late of early.splice(0)) yield { ...late, version };
    } else yield { ...event, version };
  }
}

function renumbered(event: FollowEvent, indexes: readonly number[]): FollowEvent {
  if (event.kind === 'bookmark') return event;
  return { ...event, records: event.records.map((record) => ({ ...record, query: indexes[record.query] ?? -1 })) };
}
