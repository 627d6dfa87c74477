// A pod with rules about requests on a test node with an agent and a real API server; its proxy and its sidecar are started by the tests.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { inside } from '../../scripts/bench/inside.ts';
import type { ShownNetwork } from '../../src/model/shown-network.ts';
import { type Agent, startAgent } from './agent.ts';
import { NETPLUGCTL, SIDECAR } from './built.ts';
import { poolOf } from './fixtures.ts';
import { type Json, type RunResult, startNode, type TestNode } from './node.ts';
import { type OrchApiServer, startOrchApiServer } from './orch-datastore.ts';
import type { PolicedPod } from './policed-node.ts';
import { within } from './tcp-echo.ts';
import { startTcpProxy } from './tcp-proxy.ts';
import { until } from './until.ts';

const NODE = 'node-a';
export const HTTP_PORT = 8080;
/** What the policy allows as well, and nothing speaks HTTP at. */
export const TCP_PORT = 9000;
/** What the policy allows as well, and an annotation keeps from the proxy. */
export const EXCLUDED_PORT = 8081;
/** Lets pods with the label `app: client` read `/` and what is below `/items`. */
const POLICY = {
  apiVersion: 'netplug.io/v3',
  kind: 'NetworkPolicy',
  metadata: { name: 'web', namespace: 'shop' },
  spec: {
    selector: "app == 'web'",
    types: ['Ingress'],
    ingress: [
      {
        action: 'Allow',
        source: { selector: "app == 'client'" },
        destination: { ports: [HTTP_PORT, EXCLUDED_PORT, TCP_PORT] },
        protocol: 'TCP',
        http: { methods: ['GET'], paths: [{ prefix: '/items' }, { exact: '/' }] },
      },
    ],
  },
};

export interface ScenePod extends PolicedPod {
  readonly address6: string;
  /** How long its ADD took. */
  readonly addMs: number;
}

type PodOptions = Omit<Parameters<OrchApiServer['putPod']>[0], 'namespace' | 'name' | 'node'>;

export interface SidecarScene extends AsyncDisposable {
  readonly server: OrchApiServer;
  readonly web: ScenePod;
  readonly client: ScenePod;
  /** What the application was asked, in order. */
  readonly served: string[];
  add(name: string, options: PodOptions): Promise<ScenePod>;
  /** Kills the agent, if it runs. */
  killAgent(): Promise<void>;
  startAgent(): Promise<void>;
  /** Starts the sidecar in the pod; what it writes to standard error is returned when it ends. */
  startSidecar(): RunningSidecar;
  /** Returns the status, `000` without an answer. */
  ask(
    path: string,
    options?: readonly string[],
    at?: { readonly port?: number; readonly host?: string },
  ): Promise<string>;
  /** What the agent shows of the sidecar of the pod. */
  shown(): Promise<NonNullable<ShownNetwork['sidecars']>[number] | undefined>;
  untilState(state: string): Promise<void>;
  ctl(...words: readonly string[]): Promise<string>;
}

export interface RunningSidecar {
  readonly process: ChildProcess;
  /** Status and output once it has ended. */
  ended(): Promise<{ readonly status: number | null; readonly output: string }>;
}

export async function sidecarScene(): Promise<SidecarScene> {
  await using scope = new AsyncDisposableStack();
  const node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  const server = scope.use(await startOrchApiServer());
  await server.putNode(NODE);
  await server.apply([poolOf('v4', '10.65.0.0/16'), poolOf('v6', 'fd00:65::/112')]);
  const proxy = scope.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  const orchconfig = await server.kubeconfigFor(await server.callerToken('agent'), { url });
  const env = { DATASTORE_TYPE: 'orch', ORCHCONFIG: orchconfig };
  let agent: Agent = scope.use(await startAgent(node, { env }));
  const conf = node.netconf({
    datastore_type: 'orch',
    policy: { type: 'orch' },
    orch: { orchconfig },
    ipam: { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' },
  });
  await server.putNamespace('shop');
  await server.apply([POLICY]);
  const add = async (name: string, options: PodOptions): Promise<ScenePod> =>
    addPod({ node, server, conf, socket: agent.socket }, name, options);
  const web = await add('web', {
    labels: { app: 'web' },
    annotations: { 'traffic.sidecar.istio.io/excludeInboundPorts': String(EXCLUDED_PORT) },
    containers: [{ name: 'netplug-sidecar', image: 'netplug.io/netplug-sidecar:v3.27.0' }],
  });
  const client = await add('client', { labels: { app: 'client' } });
  const served: string[] = [];
  scope.use(await startApplication(web, served));
  const sidecars = new Set<ChildProcess>();
  scope.defer(() => sidecars.forEach((each) => each.kill('SIGKILL')));
  const type = async (words: readonly string[]): Promise<RunResult> =>
    node.run([NETPLUGCTL, ...words, '--socket', agent.socket]);
  // Its status is 1 while the node has problems.
  const shown: SidecarScene['shown'] = async () =>
    (JSON.parse((await type(['node', 'status', '-o', 'json'])).stdout) as ShownNetwork).sidecars?.[0];
  const kept = scope.move();
  return {
    server,
    web,
    client,
    served,
    add,
    killAgent: async () => agent.stop('KILL'),
    startAgent: async () => void (agent = kept.use(await startAgent(node, { env }))),
    startSidecar: () => {
      const process = spawn('nsenter', [`--net=${web.netns.path}`, SIDECAR], { stdio: ['ignore', 'pipe', 'pipe'] });
      sidecars.add(process);
      return { process, ended: endOf(process) };
    },
    ask: async (path, options = [], { port = HTTP_PORT, host = web.address } = {}) => {
      const where = host.includes(':') ? `[${host}]` : host;
      const common = ['-s', '-o', '/dev/null', '-w', '%{http_code}', '--max-time', '1', '--path-as-is'];
      return client.netns
        .exec('curl', ...common, ...options, `http://${where}:${String(port)}${path}`)
        .catch((cause: { stdout?: string }) => cause.stdout ?? '000');
    },
    shown,
    untilState: async (state) => {
      let last: unknown;
      await until(
        async () => {
          last = await shown();
          return (last as { state?: string } | undefined)?.state === state;
        },
        () => `the guard of the pod is ${state}: ${JSON.stringify(last)}`,
      );
    },
    ctl: async (...words) => {
      const { stdout, stderr, status } = await type(words);
      if (status !== 0) throw new Error(stderr);
      return stdout;
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

async function addPod(
  {
    node,
    server,
    conf,
    socket,
  }: { readonly node: TestNode; readonly server: OrchApiServer; readonly conf: object; readonly socket: string },
  name: string,
  options: PodOptions,
): Promise<ScenePod> {
  await server.putPod({ namespace: 'shop', name, node: NODE, ...options });
  const netns = await node.pod();
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name}`;
  const call = { containerId: `c-shop-${name}`, args, conf, env: { NETPLUG_SOCKET: socket }, netns: netns.path };
  const beganMs = performance.now();
  const { json, stderr, status } = await node.cni('ADD', call);
  const addMs = performance.now() - beganMs;
  if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
  const [address = '', address6 = ''] = json.ips.map((ip: Json) => ip.address.split('/')[0]);
  return { name: `shop/${name}`, netns, address, address6, addMs };
}

/** HTTP at two ports, and one that sends a word to each client. */
async function startApplication({ netns }: ScenePod, served: string[]): Promise<AsyncDisposable> {
  const running = new AsyncDisposableStack();
  for (const port of [HTTP_PORT, EXCLUDED_PORT]) {
    const http = createServer((request, response) => {
      served.push(`${request.method ?? ''} ${request.url ?? ''}`);
      response.end('served');
    });
    await within(netns, async () => {
      http.listen(port, '::');
      await once(http, 'listening');
    });
    running.defer(() => http.close().closeAllConnections());
  }
  const tcp = createTcpServer((socket) => socket.on('error', () => undefined).end('hello'));
  await within(netns, async () => {
    tcp.listen(TCP_PORT, '::');
    await once(tcp, 'listening');
  });
  running.defer(() => void tcp.close());
  return running;
}

function endOf(process: ChildProcess): RunningSidecar['ended'] {
  let output = '';
  const ended = once(process, 'close');
  for (const stream of [process.stdout, process.stderr])
    stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return async () => {
    await ended;
    return { status: process.exitCode, output };
  };
}
