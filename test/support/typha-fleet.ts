// Servers and thousands of clients as objects: real logs, sessions and stores, without sockets, in time that only the test advances.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { FollowService } from '../../src/apps/typha/follow-service.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Clock } from '../../src/base/clock.ts';
import { seededRandom } from '../../src/base/random.ts';
import type { FollowStore } from '../../src/datastore/follow.ts';
import { queryOfTopic } from '../../src/datastore/typha/topics.ts';
import { TyphaStore } from '../../src/datastore/typha/typha-store.ts';
import type { ServerEntry } from '../../src/stream/handshake.ts';
import type { PeerListener, StreamPeer } from '../../src/stream/peer.ts';
import { ServerDirectory } from '../../src/stream/server-directory.ts';
import { nodeName } from './fixtures.ts';

const STEP_MS = 250;

/** Time that only `pass` advances. */
export class FleetTime {
  #nowMs = 0;
  readonly #beats = new Set<{ readonly beat: () => void; readonly everyMs: number; nextMs: number }>();
  readonly #sleepers = new Set<{ readonly atMs: number; readonly wake: () => void }>();

  readonly clock: Clock = {
    now: () => this.#nowMs,
    monotonic: () => this.#nowMs,
    sleep: async (ms, signal) =>
      new Promise((resolve, reject) => {
        signal.throwIfAborted();
        const sleeper = { atMs: this.#nowMs + ms, wake: resolve };
        this.#sleepers.add(sleeper);
        signal.addEventListener(
          'abort',
          () => {
            this.#sleepers.delete(sleeper);
            reject(new Error('aborted'));
          },
          { once: true },
        );
      }),
  };

  readonly repeat = (beat: () => void, everyMs: number, signal: AbortSignal): void => {
    // Programs do not start at the same moment.
    const one = { beat, everyMs, nextMs: this.#nowMs + everyMs };
    this.#beats.add(one);
    signal.addEventListener('abort', () => this.#beats.delete(one), { once: true });
  };

  async pass(ms: number, onStep: () => void = () => undefined): Promise<void> {
    const endMs = this.#nowMs + ms;
    while (this.#nowMs < endMs) {
      this.#nowMs += STEP_MS;
      for (const sleeper of this.#sleepers) {
        if (sleeper.atMs > this.#nowMs) continue;
        this.#sleepers.delete(sleeper);
        sleeper.wake();
      }
      for (const one of this.#beats) {
        if (one.nextMs > this.#nowMs) continue;
        one.nextMs += one.everyMs;
        one.beat();
      }
      // What was sent arrives, and what follows from it.
      for (let turn = 0; turn < 6; turn += 1) await nextTurn();
      onStep();
    }
  }
}

/** Returns two ends of a connection without a network. */
function linkedPeers(clock: Clock, near: PeerListener, far: () => PeerListener): readonly [StreamPeer, StreamPeer] {
  let isOver = false;
  const end = (who: PeerListener, other: () => PeerListener): void => {
    if (isOver) return;
    isOver = true;
    who.onEnd(undefined);
    queueMicrotask(() => other().onEnd(undefined));
  };
  const peerOf = (
    own: () => PeerListener,
    other: () => PeerListener,
    heard: { ms: number },
    theirs: { ms: number },
  ): StreamPeer => ({
    get receivedMs() {
      return heard.ms;
    },
    isFull: false,
    send: (frame) =>
      queueMicrotask(() => {
        if (isOver) return;
        theirs.ms = clock.monotonic();
        other().onFrame({ type: frame.readUInt8(4), payload: frame.subarray(5) });
      }),
    together: (work) => work(),
    accept: () => undefined,
    end: () => end(own(), other),
  });
  const [nearHeard, farHeard] = [{ ms: clock.monotonic() }, { ms: clock.monotonic() }];
  return [peerOf(() => near, far, nearHeard, farHeard), peerOf(far, () => near, farHeard, nearHeard)];
}

export interface FleetServer {
  readonly entry: { -readonly [K in keyof ServerEntry]: ServerEntry[K] };
  readonly service: FollowService;
  readonly over: AbortController;
  isUp: boolean;
}

/** A cluster of servers and clients. */
export class Fleet {
  readonly time = new FleetTime();
  readonly servers: FleetServer[] = [];
  readonly stores: TyphaStore[] = [];
  /** Reads of Leases by clients. */
  lists = 0;
  readonly #source: FollowStore;
  readonly #topic: string;

  constructor(source: FollowStore, topic: string) {
    this.#source = source;
    this.#topic = topic;
  }

  startServer(name: string, generation: string): FleetServer {
    const query = queryOfTopic(this.#topic);
    if (query === undefined) throw new Error(`${this.#topic} is no topic`);
    const { clock, repeat } = this.time;
    const service = new FollowService({
      ports: { clock, repeat, random: seededRandom(1), log: silentLog, store: this.#source, versionOf: Number },
      topics: new Map([[this.#topic, query]]),
      maxClients: 100_000,
    });
    const formats = { oldest: 1, newest: 1 };
    const entry = {
      name,
      addresses: ['192.0.2.1'],
      port: 5473,
      certificate: '',
      formats,
      generation,
      isLeaving: false,
    };
    const server: FleetServer = { entry, service, over: new AbortController(), isUp: true };
    void service.run(server.over.signal);
    this.servers.push(server);
    return server;
  }

  /** The servers as Leases show them. */
  get entries(): readonly ServerEntry[] {
    return this.servers.filter(({ isUp }) => isUp).map(({ entry }) => ({ ...entry }));
  }

  /** Every server reads the Leases. */
  announce(): void {
    for (const { service, isUp } of this.servers) if (isUp) service.announce(this.entries);
  }

  /** The process is gone; its Lease stays until a server announces. */
  kill(server: FleetServer): void {
    server.isUp = false;
    server.over.abort();
    for (const { peer } of server.service.sessions) peer.end();
  }

  addClient(node: string): TyphaStore {
    const { clock, repeat } = this.time;
    const directory: ServerDirectory = new ServerDirectory({
      clock,
      log: silentLog,
      node,
      list: async () => {
        this.lists += 1;
        return Promise.resolve(
          this.entries.map((entry) => ({ entry, release: '1', clients: 0, oldestClient: undefined, renewedMs: 0 })),
        );
      },
      onChange: () => store.reconsider(),
    });
    const store: TyphaStore = new TyphaStore({
      clock,
      repeat,
      random: seededRandom(this.stores.length),
      log: silentLog,
      servers: {
        order: (now) => directory.order(now),
        learn: (servers) => directory.learn(servers),
        refresh: () => directory.refresh(),
        connect: async (name, listener) => {
          const server = this.servers.find(({ entry, isUp }) => isUp && entry.name === name);
          if (server === undefined) throw new Error(`${name} is gone`);
          const admitted: { listener?: PeerListener } = {};
          const far = (): PeerListener => {
            if (admitted.listener === undefined) throw new Error('not admitted');
            return admitted.listener;
          };
          const [near, own] = linkedPeers(clock, listener, far);
          admitted.listener = server.service.admit({ node: nodeName(node), release: '1', format: 1, about: {} }, own);
          return Promise.resolve(near);
        },
      },
    });
    this.stores.push(store);
    return store;
  }
}
