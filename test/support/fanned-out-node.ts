// A node whose agent may follow through netplug-typha: a real API server, and servers inside of the node, each with a way to the API
// server of its own.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inside } from '../../scripts/bench/inside.ts';
import type { Agent } from './agent.ts';
import { NETPLUGCTL } from './built.ts';
import { poolOf } from './fixtures.ts';
import { startNode, type TestNode } from './node.ts';
import { type OrchApiServer, startOrchApiServer } from './orch-datastore.ts';
import type { PolicedPod } from './policed-node.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { startTyphaServer, type TyphaServer, type TyphaServerOptions, typhaToken } from './typha-process.ts';

const NODE = 'node-a';
const DENY = { podSelector: { matchLabels: { app: 'db' } }, policyTypes: ['Ingress'] };
const POLICIES = '/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies';

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
  /** Makes a pod of the namespace "shop" whose label "app" is its name, and adds it. */
  add(agent: Agent, name: string): Promise<PolicedPod>;
  /** Denies or allows everything to pods "db". */
  close(isClosed: boolean): Promise<void>;
  /** What `netplugctl node status` says. */
  status(agent: Agent): Promise<string>;
  /** Variables of an agent. */
  agentEnv(typha: 'on' | 'off'): Readonly<Record<string, string>>;
  startServer(
    name: string,
    port: number,
    more?: Pick<TyphaServerOptions, 'host' | 'command'>,
  ): Promise<FannedOutServer>;
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
  const conf = node.netconf({ datastore_type: 'orch', policy: { type: 'orch' }, orch: { orchconfig } });
  const kept = scope.move();
  return {
    server,
    node,
    api,
    conf,
    add: async ({ socket }, name) => {
      await server.putPod({ namespace: 'shop', name, node: NODE, labels: { app: name } });
      const netns = await node.pod();
      const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name}`;
      const call = { containerId: `c-${name}`, args, conf, env: { NETPLUG_SOCKET: socket }, netns: netns.path };
      const { json, stderr, status } = await node.cni('ADD', call);
      if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
      return { name, netns, address: json.ips[0].address.split('/')[0] };
    },
    close: async (isClosed) => {
      if (isClosed) await server.call('POST', POLICIES, { body: { metadata: { name: 'closed' }, spec: DENY } });
      else await server.call('DELETE', `${POLICIES}/closed`);
    },
    status: async ({ socket }) => (await node.run([NETPLUGCTL, 'node', 'status', '--socket', socket])).stdout,
    agentEnv: (typha) => ({
      DATASTORE_TYPE: 'orch',
      ORCHCONFIG: orchconfig,
      NETPLUG_TYPHA: typha,
      NETPLUG_TYPHA_TOKEN: token,
    }),
    startServer: async (name, port, more = {}) => {
      const own = await openApi();
      const config = await server.kubeconfigFor(account, { url: own.url });
      return { ...(await startTyphaServer(node, { name, port, orchconfig: config, ...more })), api: own.api };
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}
