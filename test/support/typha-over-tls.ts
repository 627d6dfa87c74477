// Servers of netplug-typha on loopback, with TLS, whose tokens are names of nodes, and whose Leases are in memory.
import { type RunningTypha, serveTypha, type TyphaOptions, type TyphaPorts } from '../../src/apps/typha/serve-typha.ts';
import { repeat, systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import type { FollowStore } from '../../src/datastore/follow.ts';
import { openTyphaStore } from '../../src/datastore/typha/open-typha-store.ts';
import type { TyphaStore } from '../../src/datastore/typha/typha-store.ts';
import type { ServerEntry } from '../../src/stream/handshake.ts';
import { makeOwnCertificate } from '../../src/stream/own-certificate.ts';
import type { LeasedServer } from '../../src/stream/server-lease.ts';
import type { ServerLeases } from '../../src/stream/server-leases.ts';
import { certifiedName } from '../../src/stream/tls-client.ts';
import { nodeName } from './fixtures.ts';

export interface TlsFixture extends AsyncDisposable {
  readonly typha: RunningTypha;
  readonly entry: ServerEntry;
}

const AGENT = 'system:serviceaccount:netplug-system:netplug-agent';

/** Leases that exist in this process alone. */
export class LeasesInMemory implements ServerLeases {
  readonly #leased = new Map<string, LeasedServer>();

  list = async (): Promise<readonly LeasedServer[]> => Promise.resolve([...this.#leased.values()]);

  write = async (server: LeasedServer): Promise<void> => {
    this.#leased.set(server.entry.name, server);
    await Promise.resolve();
  };

  remove = async (name: string): Promise<void> => {
    this.#leased.delete(name);
    await Promise.resolve();
  };
}

export async function typhaOverTls(
  store: FollowStore,
  {
    leases,
    versionOf = () => undefined,
    repeat: beats = repeat,
    ...options
  }: Partial<TyphaOptions> & Partial<Pick<TyphaPorts, 'leases' | 'versionOf' | 'repeat'>> = {},
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
          // A token that ends is of the first node.
          const extra = { 'authentication.kubernetes.io/node-name': [token.startsWith('.') ? 'n1' : token] };
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
      repeat: beats,
      ...(leases === undefined ? {} : { leases }),
    },
  );
  return { typha, entry: typha.entry(), [Symbol.asyncDispose]: async () => typha[Symbol.asyncDispose]() };
}

/** Returns the client of a node, of one server or of those that have Leases. */
export function connectedStore(
  to: TlsFixture | LeasesInMemory,
  {
    node,
    usesPodCidrs = false,
    token = node,
  }: { readonly node: string; readonly usesPodCidrs?: boolean; readonly token?: string },
): TyphaStore {
  const leased = { release: '1.0.0', clients: 0, oldestClient: undefined, renewedMs: 0 };
  return openTyphaStore(
    {
      node: nodeName(node),
      release: '1.0.0',
      usesPodCidrs,
      readToken: async () => Promise.resolve(token),
      listServers: async () => (to instanceof LeasesInMemory ? to.list() : [{ entry: to.entry, ...leased }]),
    },
    { clock: systemClock, random: systemRandom, log: silentLog, repeat },
  );
}
