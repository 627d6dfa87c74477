// A real Envoy in the network namespace of a pod, as a mesh would have put it there.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkCluster, connectionCheck, requestCheck } from '../../src/mesh/check-filter.ts';
import { program } from './components.ts';
import type { TestNetns } from './netns.ts';
import { until } from './until.ts';

const TYPE = 'type.googleapis.com/envoy';
const ADMIN_PORT = 15_000;
const INBOUND_PORT = 15_006;

/** Filters of one way to the application. */
export interface Checks {
  readonly ofRequests: readonly object[];
  readonly ofConnections: readonly object[];
  /** Where the proxy listens; in both families unless set. */
  readonly address?: string;
}

export const BOTH_CHECKS: Checks = { ofRequests: [requestCheck()], ofConnections: [connectionCheck()] };

export interface RunningEnvoy extends AsyncDisposable {
  /** Replaces the filters, and waits until the proxy has them. */
  use(checks: Checks): Promise<void>;
  admin(path: string): Promise<string>;
  signal(name: NodeJS.Signals): void;
}

/** Redirects what the pod receives, as istio-init does, and starts the proxy: HTTP at these ports, connections at all others. */
export async function startEnvoy(
  netns: TestNetns,
  { httpPorts, checks = BOTH_CHECKS }: { readonly httpPorts: readonly number[]; readonly checks?: Checks },
): Promise<RunningEnvoy> {
  const folder = mkdtempSync(join(tmpdir(), 'envoy-'));
  const write = (name: string, value: object): void => {
    const path = join(folder, name);
    writeFileSync(`${path}.new`, JSON.stringify(value));
    // Envoy looks for moves.
    renameSync(`${path}.new`, path);
  };
  let version = 0;
  const writeListeners = (used: Checks): void => {
    version += 1;
    const listener = { '@type': `${TYPE}.config.listener.v3.Listener`, ...inbound(httpPorts, used, version) };
    write('listeners.json', { version_info: String(version), resources: [listener] });
  };
  write('clusters.json', {
    version_info: '1',
    resources: [checkCluster(), application()].map((each) => ({
      '@type': `${TYPE}.config.cluster.v3.Cluster`,
      ...each,
    })),
  });
  writeListeners(checks);
  write('bootstrap.json', bootstrap(folder));
  const tables = ['ip', 'ip6'].map(
    (family) => `table ${family} mesh {
    chain prerouting {
      type nat hook prerouting priority dstnat;
      tcp dport { ${String(ADMIN_PORT)}, ${String(INBOUND_PORT)}, 15020, 15021, 15090 } return;
      meta l4proto tcp redirect to :${String(INBOUND_PORT)}
    }
  }`,
  );
  writeFileSync(join(folder, 'rules'), tables.join('\n'));
  await netns.exec('nft', '-f', join(folder, 'rules'));
  const child = spawn(
    'nsenter',
    [
      `--net=${netns.path}`,
      program('envoy'),
      '-c',
      join(folder, 'bootstrap.json'),
      '--concurrency',
      '1',
      '-l',
      'warning',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const log = logOf(child);
  const admin = async (path: string): Promise<string> =>
    netns.exec('curl', '-s', '--max-time', '5', `http://127.0.0.1:${String(ADMIN_PORT)}${path}`);
  const has = async (wanted: number): Promise<boolean> => {
    const dump = await admin('/config_dump?resource=dynamic_listeners').catch(() => '');
    return dump.includes(`"inbound-${String(wanted)}"`);
  };
  await until(
    async () => has(1),
    () => `the proxy has its listener: ${log()}`,
  );
  return {
    use: async (used) => {
      writeListeners(used);
      await until(
        async () => has(version),
        () => `the proxy has its new listener: ${log()}`,
      );
    },
    admin,
    signal: (name) => void child.kill(name),
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, 'exit');
      if (child.exitCode === null && child.kill('SIGKILL')) await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function logOf(child: ChildProcess): () => string {
  let text = '';
  child.stderr?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  return () => text;
}

function bootstrap(folder: string): object {
  const file = (name: string): object => ({
    path_config_source: { path: join(folder, name) },
    resource_api_version: 'V3',
  });
  return {
    node: { id: 'test', cluster: 'test' },
    admin: { address: { socket_address: { address: '127.0.0.1', port_value: ADMIN_PORT } } },
    dynamic_resources: { lds_config: file('listeners.json'), cds_config: file('clusters.json') },
  };
}

/** Whoever the connection was for: the application in the same pod. */
function application(): object {
  return { name: 'application', type: 'ORIGINAL_DST', lb_policy: 'CLUSTER_PROVIDED', connect_timeout: '1s' };
}

/** Envoy shows the version of a listener that it updates in place as that of the first: the prefix of its counters tells. */
function inbound(
  httpPorts: readonly number[],
  { ofRequests, ofConnections, address = '::' }: Checks,
  version: number,
): object {
  const chains = httpPorts.map((port) => ({
    filter_chain_match: { destination_port: port },
    filters: [
      {
        name: 'envoy.filters.network.http_connection_manager',
        typed_config: {
          '@type': `${TYPE}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`,
          stat_prefix: `inbound-${String(version)}`,
          normalize_path: true,
          use_remote_address: false,
          upgrade_configs: [{ upgrade_type: 'websocket' }],
          http_filters: [
            ...ofRequests,
            {
              name: 'envoy.filters.http.router',
              typed_config: { '@type': `${TYPE}.extensions.filters.http.router.v3.Router` },
            },
          ],
          route_config: {
            name: 'inbound',
            virtual_hosts: [
              { name: 'all', domains: ['*'], routes: [{ match: { prefix: '/' }, route: { cluster: 'application' } }] },
            ],
          },
        },
      },
    ],
  }));
  const others = {
    filters: [
      ...ofConnections,
      {
        name: 'envoy.filters.network.tcp_proxy',
        typed_config: {
          '@type': `${TYPE}.extensions.filters.network.tcp_proxy.v3.TcpProxy`,
          stat_prefix: 'inbound',
          cluster: 'application',
        },
      },
    ],
  };
  return {
    name: 'virtualInbound',
    traffic_direction: 'INBOUND',
    address: { socket_address: { address, port_value: INBOUND_PORT, ipv4_compat: address === '::' } },
    listener_filters: [
      {
        name: 'envoy.filters.listener.original_dst',
        typed_config: { '@type': `${TYPE}.extensions.filters.listener.original_dst.v3.OriginalDst` },
      },
    ],
    filter_chains: [...chains, others],
  };
}
