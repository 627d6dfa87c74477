// A node whose agent may follow through netplug-typha: a real API server, and servers inside of the node, each with a way to the API
// server of its own.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inside } from '../../scripts/bench/inside.ts';
import { poolOf } from './fixtures.ts';
import { startNode, type TestNode } from './node.ts';
import { type OrchApiServer, startOrchApiServer } from './orch-datastore.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { startTyphaServer, type TyphaServer, typhaToken } from './typha-process.ts';

const NODE = 'node-a';

export interface FannedOutServer extends TyphaServer {
  /** Its way to the API server. */
  readonly api: TcpProxy;
}

export interface FannedOutNode extends AsyncDisposable {
  readonly server: OrchApiServer;
  readonly node: TestNode;
  /** The way of the agent to the API server. */
  readonly api: TcpProxy;
  /** Configuration of the network, for calls. */
  readonly conf: object;
  /** Variables of an agent. */
  agentEnv(typha: 'on' | 'off'): Readonly<Record<string, string>>;
  startServer(name: string, port: number, host?: '127.0.0.1' | '::1'): Promise<FannedOutServer>;
}

export async function startFannedOutNode(): Promise<FannedOutNode> {
  await using scope = new AsyncDisposableStack();
  const node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  const server = scope.use(await startOrchApiServer());
  const ways = scope.use(new AsyncDisposableStack());
  await server.putNode(NODE);
  await server.apply([poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' })]);
  const openApi = async (): Promise<{ readonly api: TcpProxy; readonly url: string }> => {
    const api = ways.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
    return { api, url: `https://127.0.0.1:${String(api.port)}` };
  };
  const { api, url } = await openApi();
  const orchconfig = await server.kubeconfigFor(await server.callerToken('agent'), { url });
  const token = join(node.dir, 'typha-token');
  writeFileSync(token, await typhaToken(server, NODE));
  const account = await server.tokenFor('netplug-system/netplug-typha');
  const kept = scope.move();
  return {
    server,
    node,
    api,
    conf: node.netconf({ datastore_type: 'orch', policy: { type: 'orch' }, orch: { orchconfig } }),
    agentEnv: (typha) => ({
      DATASTORE_TYPE: 'orch',
      ORCHCONFIG: orchconfig,
      NETPLUG_TYPHA: typha,
      NETPLUG_TYPHA_TOKEN: token,
    }),
    startServer: async (name, port, host = '127.0.0.1') => {
      const own = await openApi();
      const config = await server.kubeconfigFor(account, { url: own.url });
      return { ...(await startTyphaServer(node, { name, host, port, orchconfig: config })), api: own.api };
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}
