// Servers of netplug-typha as programs on a test node, in front of a real API server.
import { join } from 'node:path';
import { serverLease } from '../../src/stream/server-lease.ts';
import { BUILT } from './built.ts';
import type { ApiServer } from './kube.ts';
import type { Service, TestNode } from './node.ts';
import type { OrchApiServer } from './orch-datastore.ts';
import { until } from './until.ts';

const PROGRAM = join(BUILT, 'netplug-typha');

export interface TyphaServer extends Service, AsyncDisposable {
  readonly name: string;
  ask(path: '/readyz' | '/metrics'): Promise<string>;
}

export interface TyphaServerOptions {
  readonly name: string;
  /** Its loopback address, which is that of its host. */
  readonly host?: '127.0.0.1' | '::1';
  readonly port: number;
  /** A kubeconfig with the account of the server. */
  readonly orchconfig: string;
  readonly env?: Readonly<Record<string, string>>;
  /** What is started instead of the built program. */
  readonly command?: readonly string[];
}

/** Starts a server inside of the node, at its loopback address, and waits until it is ready. */
export async function startTyphaServer(node: TestNode, options: TyphaServerOptions): Promise<TyphaServer> {
  const { name, host = '127.0.0.1', port, orchconfig, env = {}, command = [PROGRAM] } = options;
  const health = `127.0.0.1:${String(port + 1000)}`;
  const service = await node.start(command, {
    env: {
      DATASTORE_TYPE: 'orch',
      ORCHCONFIG: orchconfig,
      POD_NAME: name,
      HOST_IPS: host,
      NETPLUG_TYPHA_LISTEN: `${host === '::1' ? '[::1]' : host}:${String(port)}`,
      NETPLUG_TYPHA_DRAIN_SECONDS: '5',
      NETPLUG_HEALTH_ADDRESS: health,
      ...env,
    },
  });
  const ask: TyphaServer['ask'] = async (path) =>
    (await node.run(['curl', '--silent', '--max-time', '10', `http://${health}${path}`])).stdout;
  await until(
    async () => (await ask('/readyz')).startsWith('ok'),
    () => `${name} is ready; it says:\n${service.log()}`,
  );
  return { ...service, name, ask, [Symbol.asyncDispose]: async () => service.stop('KILL') };
}

/** Returns a token of the agents' account for netplug-typha that is bound to the node, as the kubelet projects one. */
export async function typhaToken(server: OrchApiServer, node: string, audience = 'netplug-typha'): Promise<string> {
  const path = '/api/v1/namespaces/netplug-system/serviceaccounts/netplug-agent/token';
  const { metadata } = await server.call('GET', `/api/v1/nodes/${node}`);
  const boundObjectRef = { apiVersion: 'v1', kind: 'Node', name: node, uid: metadata.uid };
  const spec = { audiences: [audience], expirationSeconds: 3600, boundObjectRef };
  const { status } = await server.call('POST', path, { body: { spec } });
  return status.token;
}

/** Writes the Lease of a server that serves so many agents, with the account of the servers. */
export async function putServerLease(server: Pick<ApiServer, 'call' | 'tokenFor'>, clients: number): Promise<void> {
  const entry = {
    name: 'a',
    addresses: ['192.0.2.9'],
    port: 5473,
    certificate: 'none',
    formats: { oldest: 1, newest: 1 },
    isLeaving: false,
  };
  const leased = { entry, release: 'v1.0.0', clients, oldestClient: undefined, renewedMs: Date.now() };
  const namespace = 'netplug-system';
  const body = serverLease({ program: 'netplug-typha', namespace, owner: undefined }, leased);
  const token = await server.tokenFor(`${namespace}/netplug-typha`);
  await server.call('POST', `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`, { body, token });
}
