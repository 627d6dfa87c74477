import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { PATIENCE_MS } from '../../../test/support/until.ts';
import type { TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { followedPool, FollowReader, FollowSource } from '../../../test/support/follow-source.ts';
import { connectedStore, LeasesInMemory, type TlsFixture, typhaOverTls } from '../../../test/support/typha-over-tls.ts';
import { repeat, systemClock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import type { FollowedRecord, FollowStore } from '../../datastore/follow.ts';
import { FOLLOW_FORMATS, FOLLOW_PROTOCOL, followFrame } from '../../datastore/typha/follow-frames.ts';
import { ALIVE, HELLO_MESSAGE, STREAM_FRAME } from '../../stream/handshake.ts';
import { connectTo } from '../../stream/tls-client.ts';

const WITHIN = { timeout: PATIENCE_MS };
const never = new AbortController().signal;
const topics = ['resources/IPPool', 'block-routes'];
const running: TlsFixture[] = [];
afterEach(async () => {
  for (const each of running.splice(0)) await each[Symbol.asyncDispose]();
});

async function start(
  options: Parameters<typeof typhaOverTls>[1] = {},
): Promise<{ fixture: TlsFixture; source: FollowSource }> {
  const source = new FollowSource();
  source.put(followedPool('a'));
  const fixture = await typhaOverTls(source, { topics, ...options });
  running.push(fixture);
  return { fixture, source };
}

/** Makes the record large, and hard to compress. */
function withNote(record: FollowedRecord): FollowedRecord {
  const note = randomBytes(1500).toString('base64');
  return {
    ...record,
    value: { ...record.value, metadata: { name: record.key, annotations: { note } } },
  } as FollowedRecord;
}

describe('a server of followed records over TLS', () => {
  it('serves agents that prove their node, and remembers their names', async () => {
    const { fixture, source } = await start();
    const readers = ['n1', 'n2'].map((node) => new FollowReader(connectedStore(fixture, { node })));
    await expect.poll(() => readers.map(({ keys }) => keys), WITHIN).toEqual([['a'], ['a']]);
    source.put(followedPool('b'));
    await expect
      .poll(() => readers.map(({ keys }) => keys), WITHIN)
      .toEqual([
        ['a', 'b'],
        ['a', 'b'],
      ]);
    expect([...fixture.typha.service.sessions].map(({ client }) => client.node).sort()).toEqual(['n1', 'n2']);
    for (const reader of readers) await reader.end();
    await expect.poll(() => fixture.typha.service.sessions.size, WITHIN).toBe(0);
  });

  it('refuses an agent whose USE_POD_CIDR differs, and says so on both ends [auth-podcidr]', async () => {
    const { fixture } = await start({ usesPodCidrs: true });
    const store = connectedStore(fixture, { node: 'n1' });
    const reader = new FollowReader(store);
    await expect
      .poll(() => store.standing.lastError, WITHIN)
      .toMatch(/USE_POD_CIDR is false, that of netplug-typha is true/);
    await reader.end();
  });

  it('has no routes of blocks with USE_POD_CIDR, and everything else', async () => {
    const { fixture } = await start({ usesPodCidrs: true });
    const store = connectedStore(fixture, { node: 'n1', usesPodCidrs: true });
    const reader = new FollowReader(store, [{ kind: 'resources', of: 'IPPool' }, { kind: 'block-routes' }]);
    await expect.poll(() => reader.keys, WITHIN).toEqual(['a']);
    await reader.end();
  });

  it('refuses a topic that it does not serve by name, and serves the others', async () => {
    const { fixture } = await start();
    const store = connectedStore(fixture, { node: 'n1' });
    const [pods, pools] = [new FollowReader(store, [{ kind: 'pods' }]), new FollowReader(store)];
    await expect.poll(() => pods.error, WITHIN).toMatchObject({ code: 'typha/topic-unknown' });
    await expect.poll(() => pools.keys, WITHIN).toEqual(['a']);
    await pools.end();
  });

  it('is found by agents while it serves some topics, and not when it has lost its source', async () => {
    const [source, routes] = [new FollowSource(), new FollowSource()];
    const store: FollowStore = {
      follow: (queries, options) => (queries[0]?.kind === 'block-routes' ? routes : source).follow(queries, options),
    };
    const lost = new NetplugError('store/unavailable', 'The API does not answer');
    routes.failure = lost;
    const leases = new LeasesInMemory();
    running.push(await typhaOverTls(store, { topics, leases }));
    await expect.poll(async () => leases.list(), WITHIN).toHaveLength(1);
    source.failure = lost;
    const unknown = new LeasesInMemory();
    running.push(await typhaOverTls(store, { topics, leases: unknown }));
    await systemClock.sleep(1500, never);
    expect(await unknown.list()).toEqual([]);
  });

  it('refuses agents beyond the number that it may have', async () => {
    const { fixture } = await start({ maxClients: 1 });
    const first = new FollowReader(connectedStore(fixture, { node: 'n1' }));
    await expect.poll(() => first.keys, WITHIN).toEqual(['a']);
    const store = connectedStore(fixture, { node: 'n2' });
    const second = new FollowReader(store);
    await expect.poll(() => store.standing.lastError, WITHIN).toMatch(/1 are connected/);
    for (const reader of [first, second]) await reader.end();
  });

  it('keeps four connections of a node, so that one node cannot take the places of others', async () => {
    const { fixture } = await start();
    const open = async (): Promise<TLSSocket> => {
      const socket = await connectTo(fixture.entry, FOLLOW_PROTOCOL, never);
      socket.on('error', () => undefined);
      socket.write(HELLO_MESSAGE.frame({ token: 'n1', release: '1', formats: FOLLOW_FORMATS }));
      await once(socket, 'data');
      return socket;
    };
    const sockets: TLSSocket[] = [];
    for (let count = 0; count < 7; count += 1) sockets.push(await open());
    await expect
      .poll(() => sockets.map(({ destroyed }) => destroyed), WITHIN)
      .toEqual([true, true, true, false, false, false, false]);
    expect(fixture.typha.service.sessions.size).toBe(4);
    for (const socket of sockets) socket.destroy();
  });

  it('refuses a node that connects again and again, and serves others', async () => {
    const { fixture } = await start({ pending: { atOnce: 8, waiting: 100, ofOneAddress: 100 } });
    for (let count = 0; count < 61; count += 1) {
      const socket = await connectTo(fixture.entry, FOLLOW_PROTOCOL, never);
      socket.on('error', () => undefined);
      socket.write(HELLO_MESSAGE.frame({ token: 'n1', release: '1', formats: FOLLOW_FORMATS }));
      const [answer] = (await once(socket, 'data')) as [Buffer];
      expect(answer[4]).toBe(count < 60 ? STREAM_FRAME.welcome : STREAM_FRAME.refused);
      socket.destroy();
    }
    const reader = new FollowReader(connectedStore(fixture, { node: 'n2' }));
    await expect.poll(() => reader.keys, WITHIN).toEqual(['a']);
    await reader.end();
  });

  it.each([
    ['begins topics', 201, followFrame({ kind: 'begin', topic: 'resources/IPPool', changed: undefined })],
    ['says that it is there', 1001, ALIVE],
  ])('ends a client that %s again and again', async (_, count, frame) => {
    const { fixture } = await start();
    const socket = await connectTo(fixture.entry, FOLLOW_PROTOCOL, never);
    socket.on('error', () => undefined).resume();
    socket.write(HELLO_MESSAGE.frame({ token: 'n1', release: '1', formats: FOLLOW_FORMATS }));
    await expect.poll(() => fixture.typha.service.sessions.size, WITHIN).toBe(1);
    socket.write(Buffer.concat(Array.from({ length: count }, () => frame)));
    await expect.poll(() => fixture.typha.service.sessions.size, WITHIN).toBe(0);
  });

  it('ends the connection of an agent whose node is removed, and asks for its token again', async () => {
    const { fixture, source } = await start({
      topics: ['resources/IPPool', 'nodes'],
      // Ten times as often, for a quick test.
      repeat: (beat, everyMs, signal) => repeat(beat, everyMs / 10, signal),
    });
    // Every topic of this source has the same keys.
    source.put(followedPool('n1'));
    const token = `.${Buffer.from(JSON.stringify({ exp: 2 ** 32 })).toString('base64url')}.`;
    const store = connectedStore(fixture, { node: 'n1', token });
    const reader = new FollowReader(store);
    await expect.poll(() => reader.events.some(({ kind }) => kind === 'bookmark'), WITHIN).toBe(true);
    expect(fixture.typha.identity.reviews).toBe(1);
    source.delete('n1');
    await expect.poll(() => fixture.typha.identity.reviews, WITHIN).toBe(2);
    await reader.end();
  });

  it('announces that it leaves: its agents move to another server, which has yielded nothing twice', async () => {
    const leases = new LeasesInMemory();
    const { fixture: first, source } = await start({ name: 'typha-1', leases });
    await expect.poll(async () => leases.list(), WITHIN).toHaveLength(1);
    const stores = ['n1', 'n2', 'n3'].map((node) => connectedStore(leases, { node }));
    const readers = stores.map((store) => new FollowReader(store));
    await expect.poll(() => readers.map(({ keys }) => keys), WITHIN).toEqual([['a'], ['a'], ['a']]);
    const second = await typhaOverTls(source, { topics, name: 'typha-2', leases });
    running.push(second);
    await expect.poll(async () => leases.list(), WITHIN).toHaveLength(2);
    await first.typha.leave(1000);
    await expect.poll(() => second.typha.service.sessions.size, WITHIN).toBe(3);
    await expect.poll(() => first.typha.service.sessions.size, WITHIN).toBe(0);
    expect(stores.map(({ standing }) => [standing.server, standing.moves, standing.differed])).toEqual(
      stores.map(() => ['typha-2', 1, 0]),
    );
    expect(readers.flatMap(({ changed }) => changed)).toEqual([]);
    source.put(followedPool('b'));
    await expect.poll(() => readers.map(({ keys }) => keys), WITHIN).toEqual(readers.map(() => ['a', 'b']));
    await first[Symbol.asyncDispose]();
    expect((await leases.list()).map(({ entry }) => entry.name)).toEqual(['typha-2']);
    for (const reader of readers) await reader.end();
  });

  it('sends nothing more to a client that never reads, keeps it, and serves the others', async () => {
    const { fixture, source } = await start();
    const deaf = await connectTo(fixture.entry, FOLLOW_PROTOCOL, never);
    deaf.on('error', () => undefined);
    deaf.write(HELLO_MESSAGE.frame({ token: 'deaf', release: '1', formats: FOLLOW_FORMATS }));
    await once(deaf, 'data');
    deaf.pause();
    deaf.write(followFrame({ kind: 'begin', topic: 'resources/IPPool', changed: undefined }));
    const reader = new FollowReader(connectedStore(fixture, { node: 'n1' }));
    await expect.poll(() => reader.keys, WITHIN).toEqual(['a']);
    const session = [...fixture.typha.service.sessions].find(({ client }) => client.node === 'deaf');
    let sent = 0;
    for (let round = 0; round < 100 && session?.peer.isFull === false; round += 1) {
      const records = Array.from({ length: 200 }, (_, index) => withNote(followedPool(`k${String(index)}`)));
      source.put(...records, followedPool(`round-${String(round)}`));
      sent += JSON.stringify(records).length;
      await expect.poll(() => reader.keys, WITHIN).toContain(`round-${String(round)}`);
    }
    expect(session?.peer.isFull).toBe(true);
    // What more changes is for the others alone, and takes no memory for the deaf client.
    for (let round = 100; round < 120; round += 1) {
      source.put(followedPool(`round-${String(round)}`));
      await expect.poll(() => reader.keys, WITHIN).toContain(`round-${String(round)}`);
    }
    expect(fixture.typha.service.sessions.has(session!)).toBe(true);
    // It reads on: what it had not received is sent in its last state.
    let received = 0;
    deaf.on('data', (bytes: Buffer) => (received += bytes.length)).resume();
    await expect.poll(() => session?.peer.isFull, WITHIN).toBe(false);
    await expect.poll(() => session?.hasSent('resources/IPPool'), WITHIN).toBe(true);
    expect(received).toBeLessThan(sent);
    deaf.destroy();
    await reader.end();
  });
});
