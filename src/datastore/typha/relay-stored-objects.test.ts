import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { nodeName } from '../../../test/support/fixtures.ts';
import { FollowSource } from '../../../test/support/follow-source.ts';
import { inSimulatedTime } from '../../../test/support/simulated-time.ts';
import { followInProcess, serveInProcess, type ServerInProcess } from '../../../test/support/typha-in-process.ts';
import { systemClock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import { systemRandom } from '../../base/random.ts';
import type { FollowedRecord, FollowEvent } from '../follow.ts';
import { blockObject } from '../orch/block-objects.ts';
import { sourcesOf } from '../orch/query-sources.ts';
import { storedObjects } from './stored-objects.ts';
import { type FollowTopic, OWN_BLOCKS, queryOfTopic, type TopicQuery } from './topics.ts';
import { type ApiObject, readObject } from '../../kube/objects.ts';
import { type RelayState, WatchRelay } from '../../kube/watch-relay.ts';
import { emptyBlock } from '../../model/ip-block.ts';
import { parseCidr } from '../../net/cidr.ts';
import { relayStoredObjects } from './relay-stored-objects.ts';

const POOLS = 'stored/IPPool';
const SILENCE_MS = 15_000;
const pass = async (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The record of a topic as a server gets it of the object. */
function recordOf(topic: FollowTopic, object: object): FollowedRecord {
  const query = queryOfTopic(topic);
  const [source] = query === undefined ? [] : sourcesOf(query, 0, { withStored: true });
  const [record] = source?.watched?.recordsIn(readObject(object)!) ?? [];
  return record!;
}

function pool(name: string, resourceVersion: number): FollowedRecord {
  const metadata = { name, resourceVersion: String(resourceVersion), uid: name };
  return recordOf(POOLS, {
    apiVersion: 'netplug.io/v3',
    kind: 'IPPool',
    metadata,
    spec: { cidr: '10.65.0.0/16' },
  });
}

function block(cidr: string, node: string, resourceVersion = '1'): FollowedRecord {
  const { metadata } = blockObject(emptyBlock(parseCidr(cidr), nodeName(node)), { uid: cidr, resourceVersion });
  return recordOf(OWN_BLOCKS, { metadata });
}

/** A process that serves calls of the node: what it has without a watch of its own. */
class CallsProcess implements Disposable {
  readonly relays = new Map<FollowTopic, WatchRelay>();
  /** Topics that it began to watch itself. */
  readonly lost: FollowTopic[] = [];
  readonly #over = new AbortController();

  constructor(node: string, servers: () => readonly ServerInProcess[]) {
    const store = followInProcess(servers, { node });
    const topics = storedObjects(nodeName(node)).filter(({ topic }) => [POOLS, OWN_BLOCKS].includes(topic));
    for (const { topic } of topics) {
      const relay = new WatchRelay(systemClock, SILENCE_MS);
      relay.listen({ onEvent: () => undefined, onLost: () => this.lost.push(topic) });
      this.relays.set(topic, relay);
    }
    const ports = {
      clock: systemClock,
      random: systemRandom,
      follow: (topic: TopicQuery, signal: AbortSignal) => store.followTopics([topic], signal),
      hasServer: () => store.standing.server !== undefined,
      send: (of: FollowTopic, event: Parameters<WatchRelay['receive']>[0]) =>
        this.relays.get(of)?.receive(structuredClone(event)),
      sendState: (states: Readonly<Record<FollowTopic, RelayState>>) => {
        for (const [of, state] of Object.entries(states)) this.relays.get(of)?.receiveState(state);
      },
      sendLost: (of: FollowTopic) => this.relays.get(of)?.disconnect(),
    };
    void relayStoredObjects(ports, topics, this.#over.signal);
  }

  /** Names and versions of the objects; undefined while they may be outdated. */
  has(topic: FollowTopic): readonly string[] | undefined {
    return this.relays
      .get(topic)
      ?.current?.objects.map(({ metadata }: ApiObject) => `${metadata.name} ${metadata.resourceVersion ?? ''}`)
      .sort();
  }

  versionOf(topic: FollowTopic): number {
    return Number(this.relays.get(topic)?.current?.version);
  }

  [Symbol.dispose](): void {
    this.#over.abort();
    for (const relay of this.relays.values()) relay[Symbol.dispose]();
  }
}

/** Runs the scene with servers whose sources the scene changes. */
async function withServer(
  scene: (parts: {
    pools: FollowSource;
    blocks: FollowSource;
    servers: ServerInProcess[];
    start: (node: string) => CallsProcess;
  }) => Promise<void>,
): Promise<void> {
  await inSimulatedTime(Date.UTC(2026, 0), async () => {
    using scope = new DisposableStack();
    const [pools, blocks] = [new FollowSource(), new FollowSource()];
    const server = serveInProcess(
      's0',
      {
        follow: (queries, options) => (queries[0]?.kind === 'resources' ? pools : blocks).follow(queries, options),
      },
      { topics: [POOLS, OWN_BLOCKS], versionOf: Number },
    );
    const servers = [server];
    await pass(10);
    await scene({ pools, blocks, servers, start: (node) => scope.use(new CallsProcess(node, () => servers)) });
    scope.dispose();
    server.cut();
    await server[Symbol.asyncDispose]();
  });
}

it('sends objects with their versions, what changes of them, and how far that is', async () => {
  await withServer(async ({ pools, start }) => {
    pools.put(pool('a', 1));
    const calls = start('n1');
    await pass(2000);
    expect(calls.has(POOLS)).toEqual(['a 1']);
    pools.put(pool('b', 2));
    pools.put(pool('a', 3));
    await pass(1000);
    expect(calls.has(POOLS)).toEqual(['a 3', 'b 2']);
    pools.delete('b');
    await pass(1000);
    expect(calls.has(POOLS)).toEqual(['a 3']);
    expect(calls.versionOf(POOLS)).toBe(pools.version);
    // A bookmark of the API: nothing has changed, and the position from which a watch could go on is newer.
    pools.put();
    await pass(5000);
    expect(calls.versionOf(POOLS)).toBe(pools.version);
  });
});

it('sends a node the metadata of its own blocks, as its name was verified, and takes back those that it loses', async () => {
  await withServer(async ({ blocks, start }) => {
    blocks.put(block('10.65.0.0/26', 'n1'), block('10.65.0.64/26', 'n2'));
    const [one, two, three] = [start('n1'), start('n2'), start('n3')];
    await pass(2000);
    expect([one, two, three].map((calls) => calls.has(OWN_BLOCKS))).toEqual([
      ['10-65-0-0-26 1'],
      ['10-65-0-64-26 1'],
      [],
    ]);
    blocks.put(block('10.65.0.0/26', 'n3', '2'));
    await pass(4000);
    expect([one, two, three].map((calls) => calls.has(OWN_BLOCKS))).toEqual([
      [],
      ['10-65-0-64-26 1'],
      ['10-65-0-0-26 2'],
    ]);
    blocks.delete('10.65.0.0/26');
    await pass(4000);
    expect(three.has(OWN_BLOCKS)).toEqual([]);
    // A node of which nothing has changed learns how far that is.
    expect([one, two, three].map((calls) => calls.versionOf(OWN_BLOCKS))).toEqual([2, 2, 2].map(() => blocks.version));
  });
});

it('tells the other process to watch by itself 15 s after the last server is gone, and takes over again', async () => {
  await withServer(async ({ pools, servers, start }) => {
    pools.put(pool('a', 1));
    const calls = start('n1');
    await pass(2000);
    const [server] = servers.splice(0);
    server!.cut();
    await pass(14_000);
    // No further follower begins with them, and they are not given up.
    expect([calls.has(POOLS), calls.lost]).toEqual([undefined, []]);
    await pass(3000);
    expect([calls.has(POOLS), calls.lost]).toEqual([undefined, [POOLS, OWN_BLOCKS]]);
    servers.push(
      serveInProcess('s1', { follow: (...args) => pools.follow(...args) }, { topics: [POOLS], versionOf: Number }),
    );
    pools.put(pool('b', 2));
    await pass(30_000);
    expect(calls.has(POOLS)).toEqual(['a 1', 'b 2']);
    await servers[0]![Symbol.asyncDispose]();
  });
});

/** Says nothing of changes: of a kind that is quiet, a server knows for a minute only what it has listed. */
class ListedSource extends FollowSource {
  override async *follow(...args: Parameters<FollowSource['follow']>): AsyncGenerator<FollowEvent> {
    for await (const event of super.follow(...args)) if (event.kind === 'snapshot') yield event;
  }
}

/** Lets a process move from a server to one that began to follow the source before `advance`. */
async function withMove(
  topic: FollowTopic,
  source: FollowSource,
  {
    advance,
    onMoved,
  }: { readonly advance: () => void; readonly onMoved: (calls: CallsProcess) => Promise<void> | void },
): Promise<void> {
  await inSimulatedTime(Date.UTC(2026, 0), async () => {
    using scope = new DisposableStack();
    const options = { topics: [topic], versionOf: Number };
    const older = serveInProcess('s1', source, options);
    await pass(10);
    advance();
    const servers = [serveInProcess('s0', source, options), older];
    await pass(10);
    const calls = scope.use(new CallsProcess('n1', () => servers));
    await pass(2000);
    expect([calls.versionOf(topic), older.service.sessions.size]).toEqual([2, 0]);
    servers.shift()!.cut();
    await pass(14_000);
    expect(older.service.sessions.size).toBe(1);
    await onMoved(calls);
    await pass(30_000);
    expect([calls.versionOf(topic), calls.lost]).toEqual([2, []]);
    scope.dispose();
    await older[Symbol.asyncDispose]();
  });
}

it('moves to a server whose list is older than what the first one has listed', async () => {
  const source = new ListedSource();
  source.put(block('10.65.0.0/26', 'n1'));
  await withMove(OWN_BLOCKS, source, {
    advance: () => source.put(block('10.65.0.64/26', 'n2')),
    onMoved: (calls) => expect(calls.has(OWN_BLOCKS)).toEqual(['10-65-0-0-26 1']),
  });
});

it('moves to a server that has changed nothing since long, and knows that by a bookmark', async () => {
  const source = new FollowSource();
  source.put(pool('a', 1));
  await withMove(POOLS, source, {
    advance: () => source.bookmark(),
    onMoved: (calls) => expect(calls.has(POOLS)).toEqual(['a 1']),
  });
});

it('gives up at once what every server refuses: that is no outage of the API', async () => {
  await withServer(async ({ pools, start }) => {
    pools.put(pool('a', 1));
    const calls = start('n1');
    await pass(2000);
    pools.fail(new NetplugError('store/refused', 'May not list pools'));
    await pass(10_000);
    expect(calls.lost).toEqual([POOLS]);
    expect(calls.has(OWN_BLOCKS)).toEqual([]);
  });
});

it('stays for a minute with what servers have that cannot follow the API, and two minutes at most', async () => {
  await withServer(async ({ pools, start }) => {
    pools.put(pool('a', 1));
    const calls = start('n1');
    await pass(2000);
    pools.fail(new NetplugError('store/unavailable', 'Cannot reach the API'));
    await pass(2000);
    // A follower that begins now lists by itself.
    expect(calls.has(POOLS)).toBeUndefined();
    await pass(58_000);
    expect(calls.lost).toEqual([]);
    await pass(75_000);
    expect(calls.lost).toEqual([POOLS]);
    pools.failure = undefined;
    pools.put(pool('b', 2));
    await pass(30_000);
    expect(calls.has(POOLS)).toEqual(['a 1', 'b 2']);
  });
});

it('never says that it has a version of which a change is missing', async () => {
  const names = ['a', 'b', 'c'];
  const step = fc.record({
    what: fc.constantFrom('put', 'put', 'delete', 'nothing', 'cut'),
    name: fc.constantFrom(...names),
    passMs: fc.constantFrom(0, 5, 30, 700, 4000),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      await withServer(async ({ pools, servers, start }) => {
        const calls = start('n1');
        /** What the source had at each version. */
        const history: string[][] = [[]];
        const live = new Map<string, number>();
        const missing: string[] = [];
        const look = (): void => {
          const [has, version] = [calls.has(POOLS), calls.versionOf(POOLS)];
          if (has === undefined) return;
          const later = history.slice(version).map((state) => state.join());
          if (!later.includes(has.join())) missing.push(`${has.join()} at ${String(version)} of ${later.join(' | ')}`);
        };
        const spy = setInterval(look, 10);
        for (const { what, name, passMs } of steps) {
          if (what === 'put') {
            live.set(name, pools.version + 1);
            pools.put(pool(name, pools.version + 1));
          } else if (what === 'delete' && live.delete(name)) pools.delete(name);
          else if (what === 'cut') for (const { peer } of servers[0]!.service.sessions) peer.end();
          while (history.length <= pools.version)
            history.push([...live].map(([each, version]) => `${each} ${String(version)}`).sort());
          await pass(passMs);
        }
        await pass(40_000);
        clearInterval(spy);
        expect(missing).toEqual([]);
        expect(calls.has(POOLS)).toEqual(history.at(-1));
      });
    }),
    { numRuns: 40 },
  );
});
