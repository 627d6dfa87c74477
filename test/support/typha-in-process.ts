// A server of followed records and its clients in one process, over streams without a network.
import { duplexPair } from 'node:stream';
import { FollowService } from '../../src/apps/typha/follow-service.ts';
import { repeat, systemClock } from '../../src/base/clock.ts';
import { type Log, silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import type { FollowStore } from '../../src/datastore/follow.ts';
import { CLIENT_BYTES, FOLLOW_FORMATS, SERVER_BYTES } from '../../src/datastore/typha/follow-frames.ts';
import { type FollowTopic, queryOfTopic } from '../../src/datastore/typha/topics.ts';
import type { TyphaServers } from '../../src/datastore/typha/typha-servers.ts';
import { TyphaStore } from '../../src/datastore/typha/typha-store.ts';
import { KIND_NAMES } from '../../src/model/kinds.ts';
import { admitClient } from '../../src/stream/admit-client.ts';
import { openStream } from '../../src/stream/open-stream.ts';
import { nodeName } from './fixtures.ts';

const RELEASE = '1.0.0';

/** Every topic that this release knows. */
export const ALL_TOPICS: readonly FollowTopic[] = [
  ...KIND_NAMES.map((kind) => `resources/${kind}`),
  ...['NetworkPolicy', 'Namespace', 'ServiceAccount'].map((kind) => `derived/${kind}`),
  'nodes',
  'block-routes',
  'pods',
  'endpoints',
  'service-endpoints',
];

export interface ServerInProcess extends AsyncDisposable {
  readonly name: string;
  readonly service: FollowService;
  /** Connections end, and none is accepted. */
  cut(): void;
}

export interface ServerOptions {
  readonly topics?: readonly FollowTopic[];
  readonly versionOf?: (version: string) => number | undefined;
  readonly maxClients?: number;
  readonly log?: Log;
}

/** Starts a server of the store. */
export function serveInProcess(name: string, store: FollowStore, options: ServerOptions = {}): ServerInProcess {
  const { topics = ALL_TOPICS, versionOf = () => undefined, maxClients = 2000, log = silentLog } = options;
  const queries = topics.flatMap((topic) => {
    const query = queryOfTopic(topic);
    return query === undefined ? [] : [[topic, query] as const];
  });
  const service = new FollowService({
    ports: { clock: systemClock, random: systemRandom, store, log, versionOf, repeat },
    topics: new Map(queries),
    maxClients,
  });
  const over = new AbortController();
  const running = service.run(over.signal);
  const server = {
    name,
    service,
    isCut: false,
    cut: () => {
      server.isCut = true;
      for (const { peer } of service.sessions) peer.end();
    },
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await running;
    },
  };
  return server;
}

/** Returns a client of the servers, those first that come first. */
export function followInProcess(
  servers: () => readonly ServerInProcess[],
  more: Partial<TyphaServers> & { readonly node?: string; readonly token?: string; readonly log?: Log } = {},
): TyphaStore {
  const { node = 'node-a', token = node, log = silentLog, ...rest } = more;
  return new TyphaStore({
    clock: systemClock,
    random: systemRandom,
    log,
    repeat,
    servers: {
      order: () => servers().map(({ name }) => name),
      learn: () => undefined,
      refresh: () => undefined,
      connect: async (name, listener, signal) => {
        const server = servers().find((each) => each.name === name);
        if (server === undefined || ('isCut' in server && server.isCut === true)) throw new Error(`${name} is gone`);
        const [near, far] = duplexPair();
        void admitClient(far, {
          clock: systemClock,
          server: name,
          release: RELEASE,
          formats: FOLLOW_FORMATS,
          identify: async (shown) => Promise.resolve(nodeName(shown)),
          admit: (client, peer) => server.service.admit(client, peer),
          limitBytes: CLIENT_BYTES,
        });
        const { peer } = await openStream(
          near,
          {
            hello: { token, release: RELEASE, formats: FOLLOW_FORMATS },
            limitBytes: SERVER_BYTES,
            clock: systemClock,
            listener,
          },
          signal,
        );
        return peer;
      },
      ...rest,
    },
  });
}
