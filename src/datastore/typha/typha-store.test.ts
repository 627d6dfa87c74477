import { describe, expect, it } from 'vitest';
import { followedPool, FollowReader, FollowSource } from '../../../test/support/follow-source.ts';
import { inSimulatedTime } from '../../../test/support/simulated-time.ts';
import { followInProcess, serveInProcess, type ServerInProcess } from '../../../test/support/typha-in-process.ts';
import { NetplugError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { keepRunning } from '../../base/back-off.ts';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import type { FollowStore, Query } from '../follow.ts';
import type { TyphaStore } from './typha-store.ts';

const topics = ['resources/IPPool'];
const versionOf = Number;

const pass = async (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Runs the scene with so many servers, each of a source of its own. */
async function withServers(
  count: number,
  scene: (parts: {
    servers: ServerInProcess[];
    sources: FollowSource[];
    live: ServerInProcess[];
    store: TyphaStore;
  }) => Promise<void>,
): Promise<void> {
  await inSimulatedTime(Date.UTC(2026, 0), async () => {
    const sources = Array.from({ length: count }, () => new FollowSource());
    for (const source of sources) source.put(followedPool('a'), followedPool('b'));
    const servers = sources.map((source, index) => serveInProcess(`s${String(index)}`, source, { topics, versionOf }));
    const live = [...servers];
    const store = followInProcess(() => live);
    await pass(10);
    await scene({ servers, sources, live, store });
    for (const server of servers) server.cut();
  });
}

/** Runs the scene with so many servers of pools, and of pods whose sources the scene makes fail. */
async function withKinds(
  count: number,
  scene: (parts: { servers: ServerInProcess[]; failing: FollowSource[]; store: TyphaStore }) => Promise<void>,
): Promise<void> {
  await inSimulatedTime(Date.UTC(2026, 0), async () => {
    const pools = new FollowSource();
    pools.put(...Array.from({ length: 100 }, (_, index) => followedPool(`pool-${String(index)}`)));
    const failing = Array.from({ length: count }, () => new FollowSource());
    const servers = failing.map((pods, index) => {
      const store: FollowStore = {
        follow: (queries, options) => (queries[0]?.kind === 'pods' ? pods : pools).follow(queries, options),
      };
      return serveInProcess(`s${String(index)}`, store, { topics: ['resources/IPPool', 'pods'], versionOf });
    });
    await pass(10);
    await scene({ servers, failing, store: followInProcess(() => servers) });
    for (const server of servers) await server[Symbol.asyncDispose]();
  });
}

describe('a follow over the network', () => {
  it('yields a snapshot, changes, deletions and bookmarks', async () => {
    await withServers(1, async ({ sources: [source], store }) => {
      const reader = new FollowReader(store);
      await pass(1000);
      expect(reader.events.map(({ kind }) => kind)).toEqual(['snapshot']);
      source!.put(followedPool('c'));
      source!.delete('a');
      await pass(7000);
      expect(reader.keys).toEqual(['b', 'c']);
      expect(reader.events.at(-1)?.kind).toBe('bookmark');
      await reader.end();
    });
  });

  it('gives a further follower a snapshot from what is there, over the same connection', async () => {
    await withServers(1, async ({ servers: [server], store }) => {
      const [one, other] = [new FollowReader(store), new FollowReader(store)];
      await pass(1000);
      const late = new FollowReader(store);
      await pass(1);
      expect([one, other, late].map(({ keys }) => keys)).toEqual([
        ['a', 'b'],
        ['a', 'b'],
        ['a', 'b'],
      ]);
      expect(server!.service.sessions.size).toBe(1);
      for (const reader of [one, other, late]) await reader.end();
      await pass(1000);
      expect(server!.service.sessions.size).toBe(0);
    });
  });

  it('yields only what differs when it moves to another server, and takes it within two seconds', async () => {
    await withServers(2, async ({ servers: [first], sources: [, second], live, store }) => {
      const reader = new FollowReader(store);
      await pass(1000);
      second!.put(followedPool('b', '10.9.0.0/24'));
      second!.delete('a');
      live.shift();
      first!.cut();
      await pass(2000);
      expect(reader.changed).toEqual([['a', 'b']]);
      expect(reader.keys).toEqual(['b']);
      expect(store.standing).toMatchObject({ server: 's1', moves: 1, differed: 2 });
      await reader.end();
    });
  });

  it('yields nothing when it moves and nothing differs', async () => {
    await withServers(2, async ({ servers: [first], live, store }) => {
      const reader = new FollowReader(store);
      await pass(1000);
      live.shift();
      first!.cut();
      await pass(2000);
      expect(reader.changed).toEqual([]);
      expect(store.standing).toMatchObject({ server: 's1', moves: 1, differed: 0 });
      await reader.end();
    });
  });

  it('follows another server when the source of its own fails, and keeps its connection until then', async () => {
    await withServers(2, async ({ sources: [first], store }) => {
      const reader = new FollowReader(store);
      await pass(1000);
      first!.fail(new NetplugError('store/unavailable', 'Cannot reach the API'));
      await pass(2000);
      expect(store.standing).toMatchObject({ server: 's1', moves: 1 });
      expect(reader.error).toBeUndefined();
      expect(reader.changed).toEqual([]);
      await reader.end();
    });
  });

  it('fails with the error of the source when no other server is better', async () => {
    await withServers(1, async ({ sources: [source], store }) => {
      const reader = new FollowReader(store);
      await pass(1000);
      source!.fail(new NetplugError('store/unavailable', 'Cannot reach the API', { hint: 'Start it' }));
      await pass(3000);
      expect(reader.error).toMatchObject({ code: 'store/unavailable', hint: 'Start it' });
      // It goes on when the source is back.
      source!.failure = undefined;
      let again = new FollowReader(store);
      for (let second = 0; second < 20; second += 1) {
        await pass(1000);
        if (again.error !== undefined) again = new FollowReader(store);
      }
      expect(again.keys).toEqual(['a', 'b']);
      await again.end();
    });
  });

  it('fails with a refusal of one kind, without leaving the server', async () => {
    await withServers(2, async ({ sources: [source], store }) => {
      source!.fail(new NetplugError('store/refused', 'The API refuses it'));
      await pass(100);
      const reader = new FollowReader(store);
      await pass(3000);
      expect(reader.error).toMatchObject({ code: 'store/refused' });
    });
  });

  it('fails within seconds before its first snapshot, when every server was asked', async () => {
    await withServers(2, async ({ servers, live, store }) => {
      for (const server of servers) server.cut();
      const reader = new FollowReader(store);
      await pass(4000);
      expect(reader.error).toMatchObject({ code: 'store/unavailable' });
      // It follows the one that comes later.
      const again = new FollowReader(store);
      const source = new FollowSource();
      source.put(followedPool('a'));
      live.push(serveInProcess('late', source, { topics, versionOf }));
      await pass(15_000);
      expect(again.keys).toEqual(['a']);
      await again.end();
    });
  });

  it('fails 15 s after the last server is gone, and not before', async () => {
    await withServers(2, async ({ servers, live, store }) => {
      const reader = new FollowReader(store);
      await pass(1000);
      live.splice(0);
      for (const server of servers) server.cut();
      await pass(14_000);
      expect(reader.error).toBeUndefined();
      await pass(2000);
      expect(reader.error).toMatchObject({ code: 'store/unavailable' });
    });
  });

  it('follows another server when its own falls silent, as one that is stopped does', async () => {
    await withServers(2, async ({ servers: [first], live, store }) => {
      const reader = new FollowReader(store);
      await pass(5000);
      live.shift();
      for (const { peer } of first!.service.sessions)
        Object.assign(peer, { send: () => undefined, together: () => undefined });
      await pass(14_000);
      expect(store.standing).toMatchObject({ server: 's1', moves: 1, lastError: 'it is silent' });
      expect([reader.changed, reader.error]).toEqual([[], undefined]);
      await reader.end();
    });
  });

  it('follows what a server has of several topics when no server has them all', async () => {
    await withKinds(2, async ({ failing, store }) => {
      for (const source of failing) source.fail(new NetplugError('store/unavailable', 'A webhook fails'));
      const [pools, pods] = [new FollowReader(store), new FollowReader(store, [{ kind: 'pods' }])];
      await pass(5000);
      expect(pools.keys).toHaveLength(100);
      expect(pods.error).toMatchObject({ message: 'A webhook fails' });
      await pools.end();
    });
  });

  it('asks other servers for what its own lacks, before they send what it has', async () => {
    await withKinds(3, async ({ servers, failing, store }) => {
      const [pools, pods] = [new FollowReader(store), new FollowReader(store, [{ kind: 'pods' }])];
      await pass(1000);
      const [own] = servers.flatMap(({ service }) => [...service.sessions]);
      const whole = own!.sentBytes;
      let [connects, bytes] = [0, 0];
      for (const { service } of servers) {
        const admit = service.admit.bind(service);
        service.admit = (client, peer) => {
          connects += 1;
          const send = peer.send.bind(peer);
          peer.send = (frame) => {
            bytes += frame.length;
            send(frame);
          };
          return admit(client, peer);
        };
      }
      for (const source of failing) source.fail(new NetplugError('store/unavailable', 'A webhook fails'));
      await pass(1000);
      const again = new FollowReader(store, [{ kind: 'pods' }]);
      await pass(10_000);
      expect(connects).toBeGreaterThan(1);
      expect(bytes).toBeLessThan(connects * whole * 0.5);
      expect(pods.error).toMatchObject({ message: 'A webhook fails' });
      // One server is well again: everything comes from it.
      failing[2]!.failure = undefined;
      await pass(6000);
      const last = new FollowReader(store, [{ kind: 'pods' }]);
      await pass(20_000);
      expect(store.standing.server).toBe('s2');
      expect(last.events[0]?.kind).toBe('snapshot');
      expect([pools.changed, pools.error]).toEqual([[], undefined]);
      for (const reader of [pools, again, last]) await reader.end();
    });
  });

  it('does not call a server lost whose last follower has ended', async () => {
    await withServers(1, async ({ live }) => {
      const warnings: string[] = [];
      const log = { ...silentLog, warning: (event: string) => warnings.push(event) };
      const reader = new FollowReader(followInProcess(() => live, { log }));
      await pass(1000);
      await reader.end();
      expect(warnings).toEqual([]);
    });
  });

  it('does not move to a server that lacks a topic which its own serves', async () => {
    await inSimulatedTime(Date.UTC(2026, 0), async () => {
      const source = new FollowSource();
      source.put(followedPool('a'));
      const older = serveInProcess('older', source, { topics: ['resources/IPPool'], versionOf });
      const newer = serveInProcess('newer', source, { topics: ['resources/IPPool', 'pods'], versionOf });
      const live = [newer];
      const store = followInProcess(() => live);
      const reader = new FollowReader(store, [{ kind: 'resources', of: 'IPPool' }, { kind: 'pods' }]);
      await pass(1000);
      live.unshift(older);
      store.reconsider();
      await pass(70_000);
      expect(store.standing).toMatchObject({ server: 'newer', moves: 0 });
      expect(store.standing.lastError).toMatch(/does not serve a topic/);
      expect(reader.error).toBeUndefined();
      await reader.end();
      for (const server of [older, newer]) await server[Symbol.asyncDispose]();
    });
  });

  it('never goes back to an older state: it takes the next server', async () => {
    await withServers(3, async ({ servers: [first], sources, live, store }) => {
      for (const index of [0, 2]) sources[index]!.put(followedPool('new'));
      await pass(1000);
      const reader = new FollowReader(store);
      await pass(1000);
      live.shift();
      first!.cut();
      // The second is asked first, and says after 3 s that it is behind.
      await pass(6000);
      expect(store.standing.server).toBe('s2');
      expect(reader.changed).toEqual([]);
      await reader.end();
    });
  });

  it('waits for a server that is behind for a moment', async () => {
    await withServers(2, async ({ servers: [first], sources, live, store }) => {
      sources[0]!.put(followedPool('new'));
      await pass(1000);
      const reader = new FollowReader(store);
      await pass(1000);
      live.shift();
      first!.cut();
      await pass(1500);
      expect(store.standing.server).toBe('s0');
      sources[1]!.put(followedPool('new'));
      await pass(1500);
      expect(store.standing.server).toBe('s1');
      expect(reader.changed).toEqual([]);
      await reader.end();
    });
  });

  it('is not behind because nothing has changed for long: the server lists again', async () => {
    await withServers(2, async ({ servers: [first], sources, live, store }) => {
      // The first server has listed later than the second, which would say so within a minute.
      sources[0]!.version = 99;
      sources[0]!.put(followedPool('a'));
      await pass(1000);
      const reader = new FollowReader(store);
      await pass(1000);
      sources[1]!.version = 100;
      live.shift();
      first!.cut();
      await pass(2000);
      expect(store.standing.server).toBe('s1');
      expect(reader.changed).toEqual([]);
      await reader.end();
    });
  });

  it('accepts an older state of its only server for all topics, while it follows others there', async () => {
    await inSimulatedTime(Date.UTC(2026, 0), async () => {
      const source = new FollowSource();
      source.version = 100;
      source.put(followedPool('a'));
      const server = serveInProcess('s0', source, { topics: ['resources/IPPool', 'pods'], versionOf });
      const store = followInProcess(() => [server]);
      const over = new AbortController();
      const kinds = new Map<Query, string>();
      const queries: readonly Query[] = [{ kind: 'resources', of: 'IPPool' }, { kind: 'pods' }];
      for (const query of queries) {
        const work = async (): Promise<void> => {
          for await (const { kind } of store.follow([query], { signal: over.signal })) kinds.set(query, kind);
        };
        const onFailure = (): void => void kinds.set(query, 'failed');
        void keepRunning({ clock: systemClock, random: systemRandom }, { work, onFailure }, over.signal);
      }
      await pass(2000);
      source.fail(new NetplugError('store/unavailable', 'Cannot reach the API'));
      await pass(20_000);
      source.version = 50;
      source.failure = undefined;
      await pass(20_000);
      expect([...kinds.values()]).toContain('failed');
      await pass(40_000);
      expect([...kinds.values()]).toEqual(['bookmark', 'bookmark']);
      over.abort();
      await server[Symbol.asyncDispose]();
    });
  });

  it('accepts an older state that every server has had for 30 s: the datastore was restored', async () => {
    await withServers(2, async ({ servers: [first], sources, live, store }) => {
      sources[0]!.put(followedPool('new'));
      await pass(1000);
      let reader = new FollowReader(store);
      await pass(1000);
      expect(reader.keys).toEqual(['a', 'b', 'new']);
      live.shift();
      first!.cut();
      for (let second = 0; second < 28; second += 1) {
        await pass(1000);
        expect(reader.keys).not.toEqual(['a', 'b']);
        if (reader.error !== undefined) reader = new FollowReader(store);
      }
      for (let second = 0; second < 20; second += 1) {
        await pass(1000);
        if (reader.error !== undefined) reader = new FollowReader(store);
      }
      expect(reader.keys).toEqual(['a', 'b']);
      await reader.end();
    });
  });
});
