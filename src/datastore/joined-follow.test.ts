import { expect, it } from 'vitest';
import { nodeName, poolOf } from '../../test/support/fixtures.ts';
import { NetplugError } from '../base/errors.ts';
import type { FollowEvent, FollowStore, Query } from './follow.ts';
import { JoinedFollow } from './joined-follow.ts';
import { MemoryDatabase } from './memory/memory-database.ts';
import { openMemoryStore } from './memory/memory-store.ts';

const never = new AbortController().signal;
const queries: readonly Query[] = [
  { kind: 'resources', of: 'BGPPeer' },
  { kind: 'resources', of: 'IPPool' },
  { kind: 'other-nodes', self: nodeName('n1') },
];
const isPool = (query: Query): boolean => query.kind === 'resources' && query.of === 'IPPool';

function lines(event: FollowEvent): readonly string[] {
  return event.kind === 'bookmark'
    ? []
    : event.records.map(({ query, key }) => `${event.kind} ${String(query)} ${key}`);
}

it('yields one snapshot of both stores, and then changes of each with the indexes of the whole', async () => {
  const [near, far] = [openMemoryStore(new MemoryDatabase()), openMemoryStore(new MemoryDatabase())];
  await near.createResource(poolOf('blue', '10.0.0.0/24'), never);
  await far.createResource({ apiVersion: 'netplug.io/v3', kind: 'Node', metadata: { name: 'n2' }, spec: {} }, never);
  const stop = new AbortController();
  const seen: string[] = [];
  for await (const event of new JoinedFollow({ shared: near, own: far }, isPool).follow(queries, {
    signal: stop.signal,
  })) {
    if (event.kind === 'snapshot') await near.createResource(poolOf('green', '10.1.0.0/24'), never);
    seen.push(...lines(event));
    if (seen.length === 3) stop.abort();
  }
  expect(seen.sort()).toEqual(['changes 1 IPPool /green', 'snapshot 1 IPPool /blue', 'snapshot 2 Node /n2']);
});

it('fails when either store fails', async () => {
  const lost = new NetplugError('store/unavailable', 'Cannot use the datastore', { hint: 'Start it' });
  const failing: FollowStore = {
    // oxlint-disable-next-line typescript/require-await, require-yield -- a stream that fails before its first event
    follow: async function* () {
      throw lost;
    },
  };
  const good = openMemoryStore(new MemoryDatabase());
  for (const stores of [
    { shared: failing, own: good },
    { shared: good, own: failing },
  ]) {
    await expect(new JoinedFollow(stores, isPool).follow(queries, { signal: never }).next()).rejects.toBe(lost);
  }
});

it('begins again with a snapshot of both when one store yields another snapshot', async () => {
  const good = openMemoryStore(new MemoryDatabase());
  await good.createResource(poolOf('blue', '10.0.0.0/24'), never);
  let streams = 0;
  const first = Promise.withResolvers<void>();
  const relisting: FollowStore = {
    follow: async function* (_, { signal }) {
      streams += 1;
      yield { kind: 'snapshot', records: [], version: '1' };
      if (streams === 1) {
        await first.promise;
        yield { kind: 'snapshot', records: [], version: '2' };
      }
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
    },
  };
  const stop = new AbortController();
  const seen: string[] = [];
  for await (const event of new JoinedFollow({ shared: good, own: relisting }, isPool).follow(queries, {
    signal: stop.signal,
  })) {
    first.resolve();
    seen.push(...lines(event));
    if (seen.length === 2) stop.abort();
  }
  expect(seen).toEqual(['snapshot 1 IPPool /blue', 'snapshot 1 IPPool /blue']);
});

it('asks both stores for a fresh snapshot when it is asked for one', async () => {
  const asked: (boolean | undefined)[] = [];
  const store: FollowStore = {
    follow: async function* (_queries, { isFresh }) {
      asked.push(isFresh);
      yield await Promise.resolve({ kind: 'snapshot', records: [], version: '1' } as const);
    },
  };
  await new JoinedFollow({ shared: store, own: store }, isPool)
    .follow(queries, { isFresh: true, signal: never })
    .next();
  expect(asked).toEqual([true, true]);
});
