import { Channel } from '../../base/channel.ts';
import { NetplugError } from '../../base/errors.ts';
import type { AnyResource } from '../../model/kinds.ts';
import type { ResourceId } from '../../model/resource-id.ts';
import { addressesOf, borrowersOf } from '../borrowers.ts';
import { deletedRecord, type FollowedRecord, followedKey, type FollowEvent, type Query } from '../follow.ts';
import { type MemoryDatabase, type MemoryState, UNREADABLE } from './memory-database.ts';
import { endpointsOn, problemWith, observedRecords } from './read-state.ts';

/** Follows the queries from state to state. `look` returns the state to report; throws to simulate a lost watch. */
export async function* follow(
  database: MemoryDatabase,
  {
    queries,
    from,
    look,
  }: {
    readonly queries: readonly Query[];
    readonly from: string | undefined;
    readonly look: (state: MemoryState) => Promise<MemoryState>;
  },
  signal: AbortSignal,
): AsyncGenerator<FollowEvent> {
  const past = from === undefined ? undefined : database.stateAt(from);
  let known = past === undefined ? undefined : recordsIn(past, queries);
  for await (const next of statesOf(database, signal)) {
    const state = await look(next);
    const version = database.versionOf(state);
    const now = recordsIn(state, queries);
    if (known === undefined) yield { kind: 'snapshot', records: [...now.values()], version };
    else {
      const records = changesBetween(known, now);
      yield records.length === 0 ? { kind: 'bookmark', version } : { kind: 'changes', records, version };
    }
    known = now;
  }
}

/** Yields the present state and every later one. */
async function* statesOf(database: MemoryDatabase, signal: AbortSignal): AsyncGenerator<MemoryState> {
  const states = new Channel<MemoryState>();
  const end = (): void => states.close();
  signal.addEventListener('abort', end, { once: true });
  states.push(database.state());
  const stop = database.listen(
    (state) => states.push(state),
    () => states.fail(new NetplugError('store/unavailable', 'Cannot follow the datastore: a backup was restored')),
  );
  try {
    yield* states;
  } finally {
    stop();
    signal.removeEventListener('abort', end);
  }
}

function changesBetween(
  before: ReadonlyMap<string, FollowedRecord>,
  now: ReadonlyMap<string, FollowedRecord>,
): readonly FollowedRecord[] {
  const deleted = [...before].flatMap(([key, record]) => (now.has(key) ? [] : [deletedRecord(record)]));
  const changed = [...now].flatMap(([key, record]) => {
    const old = before.get(key);
    return old?.version === record.version && old.problem === record.problem ? [] : [record];
  });
  return [...deleted, ...changed];
}

function recordsIn(state: MemoryState, queries: readonly Query[]): ReadonlyMap<string, FollowedRecord> {
  const records = queries.flatMap((query, index) => [...recordsOf(state, query, index)]);
  return new Map(records.map((record) => [followedKey(record), record]));
}

function* recordsOf(state: MemoryState, query: Query, index: number): Generator<FollowedRecord> {
  switch (query.kind) {
    case 'resources':
      for (const { which, seen } of observedRecords(state, query.of)) {
        if (query.name === undefined || which.name === query.name) yield resourceRecord(which, seen, index);
      }
      return;
    case 'other-nodes':
      for (const { which, seen } of observedRecords(state, 'Node')) {
        if (which.name !== query.self) yield resourceRecord(which, seen, index);
      }
      return;
    case 'node-blocks':
    case 'block-routes':
      for (const [key, { value, version }] of state.blocks) {
        const isRoute = query.kind === 'block-routes';
        const base = { query: index, key, version };
        if (value === UNREADABLE) {
          yield { ...base, kind: isRoute ? 'route' : 'block', problem: problemWith(`block ${key}`) };
        } else if (isRoute) {
          const { cidr, node } = value;
          yield { ...base, kind: 'route', value: { cidr, node, borrowed: addressesOf(cidr, borrowersOf(value)) } };
        } else if (value.node === query.node || borrowersOf(value).has(query.node)) {
          yield { ...base, kind: 'block', value };
        }
      }
      return;
    case 'derived-resources':
    case 'service-endpoints':
    case 'pods':
      return;
    case 'endpoints':
      for (const [key, { value, version }] of endpointsOn(state, query.node)) {
        const base = { kind: 'endpoint', query: index, key, version } as const;
        yield value === UNREADABLE ? { ...base, problem: problemWith(`endpoint ${key}`) } : { ...base, value };
      }
  }
}

function resourceRecord(
  which: ResourceId,
  seen: { readonly value?: AnyResource | undefined; readonly problem?: string | undefined },
  query: number,
): FollowedRecord {
  const key = `${which.kind} ${which.namespace ?? ''}/${which.name}`;
  return { kind: 'resource', query, key, version: seen.value?.metadata.resourceVersion ?? '', which, ...seen };
}
