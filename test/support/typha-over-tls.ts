// A server of netplug-typha on loopback, with TLS, whose tokens are names of nodes.
import { type RunningTypha, serveTypha, type TyphaOptions, type TyphaPorts } from '../../src/apps/typha/serve-typha.ts';
import { repeat, systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import type { FollowStore } from '../../src/datastore/follow.ts';
import { FOLLOW_FORMATS, FOLLOW_PROTOCOL, SERVER_BYTES } from '../../src/datastore/typha/follow-frames.ts';
import { TyphaStore } from '../../src/datastore/typha/typha-store.ts';
import type { ServerEntry } from '../../src/stream/handshake.ts';
import { openStream } from '../../src/stream/open-stream.ts';
import { makeOwnCertificate } from '../../src/stream/own-certificate.ts';
import { certifiedName, connectTo } from '../../src/stream/tls-client.ts';

export interface TlsFixture extends AsyncDisposable {
  readonly typha: RunningTypha;
  readonly entry: ServerEntry;
}

const AGENT = 'system:serviceaccount:netplug-system:netplug-agent';

export async function typhaOverTls(
  store: FollowStore,
  {
    leases,
    versionOf = () => undefined,
    ...options
  }: Partial<TyphaOptions> & Partial<Pick<TyphaPorts, 'leases' | 'versionOf'>> = {},
): Promise<TlsFixture> {
  const name = options.name ?? 'typha-1';
  const own = makeOwnCertificate(certifiedName(name), Date.now());
  const audience = 'netplug-typha';
  const typha = await serveTypha(
    {
      name,
      release: '1.0.0',
      listen: { host: '127.0.0.1', port: 0 },
      addresses: ['127.0.0.1'],
      own,
      maxClients: 100,
      usesPodCidrs: false,
      identity: {
        audience,
        users: [AGENT],
        review: async (token) => {
          const extra = { 'authentication.kubernetes.io/node-name': [token] };
          return Promise.resolve({ authenticated: true, audiences: [audience], user: { username: AGENT, extra } });
        },
      },
      ...options,
    },
    {
      store,
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      versionOf,
      repeat,
      ...(leases === undefined ? {} : { leases }),
    },
  );
  return {
    typha,
    entry: typha.entry(),
    [Symbol.asyncDispose]: async () => typha[Symbol.asyncDispose](),
  };
}

/** Returns the client of a node. */
export function connectedStore(
  { entry }: TlsFixture,
  { node, usesPodCidrs = false }: { readonly node: string; readonly usesPodCidrs?: boolean },
): TyphaStore {
  return new TyphaStore({
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    repeat,
    servers: {
      order: () => [entry.name],
      learn: () => undefined,
      refresh: () => undefined,
      connect: async (_, listener, signal) => {
        const socket = await connectTo(entry, FOLLOW_PROTOCOL, signal);
        const hello = { token: node, release: '1.0.0', formats: FOLLOW_FORMATS, about: { usesPodCidrs } };
        const { peer } = await openStream(
          socket,
          { hello, limitBytes: SERVER_BYTES, clock: systemClock, listener },
          signal,
        );
        return peer;
      },
    },
  });
}
