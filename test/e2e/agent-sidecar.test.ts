// Rules about requests, with a real Envoy that asks netplug-sidecar, and real packets. The mesh itself is in the soak.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, createServer as createTcpServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inside } from '../../scripts/bench/inside.ts';
import { requestCheck } from '../../src/mesh/check-filter.ts';
import type { ShownNetwork } from '../../src/model/shown-network.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import { NETPLUGCTL, SIDECAR } from '../support/built.ts';
import { BOTH_CHECKS, type RunningEnvoy, startEnvoy } from '../support/envoy.ts';
import { poolOf } from '../support/fixtures.ts';
import { startNode, type TestNode } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import type { PolicedPod } from '../support/policed-node.ts';
import { within } from '../support/tcp-echo.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const NODE = 'node-a';
const HTTP_PORT = 8080;
const TCP_PORT = 9000;
const EXCLUDED_PORT = 8081;
const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let node: TestNode;
let agent: Agent;
let env: Readonly<Record<string, string>>;
let conf: object;
let web: PolicedPod & { readonly address6: string };
let client: PolicedPod;
let envoy: RunningEnvoy;
let sidecar: ChildProcess | undefined;
/** What the application was asked, in order. */
const served: string[] = [];

beforeAll(async () => {
  node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  server = scope.use(await startOrchApiServer());
  await server.putNode(NODE);
  await server.apply([poolOf('v4', '10.65.0.0/16'), poolOf('v6', 'fd00:65::/112')]);
  const proxy = scope.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  const orchconfig = await server.kubeconfigFor(await server.callerToken('agent'), { url });
  env = { DATASTORE_TYPE: 'orch', ORCHCONFIG: orchconfig };
  agent = scope.use(await startAgent(node, { env }));
  conf = node.netconf({
    datastore_type: 'orch',
    policy: { type: 'orch' },
    orch: { orchconfig },
    ipam: { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' },
  });
  await server.putNamespace('shop');
  await server.apply([
    {
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
    },
  ]);
  web = await add('web', {
    labels: { app: 'web' },
    annotations: { 'traffic.sidecar.istio.io/excludeInboundPorts': String(EXCLUDED_PORT) },
    containers: [{ name: 'netplug-sidecar', image: 'netplug.io/netplug-sidecar:v3.27.0' }],
  });
  client = await add('client', { labels: { app: 'client' } });
  for (const port of [HTTP_PORT, EXCLUDED_PORT]) {
    const http = createServer((request, response) => {
      served.push(`${request.method ?? ''} ${request.url ?? ''}`);
      response.end('served');
    });
    await within(web.netns, async () => {
      http.listen(port, '::');
      await once(http, 'listening');
    });
    scope.defer(() => http.close().closeAllConnections());
  }
  const tcp = createTcpServer((socket) => socket.on('error', () => undefined).end('hello'));
  await within(web.netns, async () => {
    tcp.listen(TCP_PORT, '::');
    await once(tcp, 'listening');
  });
  scope.defer(() => void tcp.close());
}, 180_000);
afterAll(async () => {
  sidecar?.kill('SIGKILL');
  await scope.disposeAsync();
});

async function add(
  name: string,
  more: Omit<Parameters<OrchApiServer['putPod']>[0], 'namespace' | 'name' | 'node'>,
): Promise<PolicedPod & { readonly address6: string }> {
  await server.putPod({ namespace: 'shop', name, node: NODE, ...more });
  const netns = await node.pod();
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name}`;
  const call = { containerId: `c-shop-${name}`, args, conf, env: { NETPLUG_SOCKET: agent.socket }, netns: netns.path };
  const { json, stderr, status } = await node.cni('ADD', call);
  if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
  const [address = '', address6 = ''] = (json.ips as { address: string }[]).map((ip) => ip.address.split('/')[0] ?? '');
  return { name: `shop/${name}`, netns, address, address6 };
}

function startSidecar(): void {
  sidecar = spawn('nsenter', [`--net=${web.netns.path}`, SIDECAR], { stdio: ['ignore', 'inherit', 'inherit'] });
}

/** Returns the status, `000` without an answer. */
async function ask(
  path: string,
  options: readonly string[] = [],
  { port = HTTP_PORT, host = web.address } = {},
): Promise<string> {
  const where = host.includes(':') ? `[${host}]` : host;
  const common = ['-s', '-o', '/dev/null', '-w', '%{http_code}', '--max-time', '1', '--path-as-is'];
  return client.netns
    .exec('curl', ...common, ...options, `http://${where}:${String(port)}${path}`)
    .catch((cause: { stdout?: string }) => cause.stdout ?? '000');
}

async function shown(): Promise<NonNullable<ShownNetwork['sidecars']>[number] | undefined> {
  const { stdout } = await node.run([NETPLUGCTL, 'node', 'status', '-o', 'json', '--socket', agent.socket]);
  return (JSON.parse(stdout) as ShownNetwork).sidecars?.[0];
}

async function untilState(state: string): Promise<void> {
  let last: unknown;
  await until(
    async () => {
      last = await shown();
      return (last as { state?: string } | undefined)?.state === state;
    },
    () => `the guard of the pod is ${state}: ${JSON.stringify(last)}`,
  );
}

async function ctl(...words: readonly string[]): Promise<string> {
  const { stdout, stderr, status } = await node.run([NETPLUGCTL, ...words, '--socket', agent.socket]);
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

it('opens nothing without a proxy that asks', async () => {
  expect(await ask('/items/1')).toBe('000');
  expect(await shown()).toMatchObject({ pod: 'shop/web', state: 'waiting', ports: [] });
});

it('opens nothing while the sidecar runs, and no proxy shows that it asks', async () => {
  startSidecar();
  await untilState('unproven');
  expect(await ask('/items/1')).toBe('000');
});

it('lets through the requests that a rule allows, in both families, once the proxy asks', async () => {
  envoy = scope.use(await startEnvoy(web.netns, { httpPorts: [HTTP_PORT, EXCLUDED_PORT] }));
  await untilState('guarding');
  expect(await shown()).toMatchObject({ ports: [HTTP_PORT], proxy: '1.40.0', release: expect.any(String) });
  expect(await ask('/items/1')).toBe('200');
  expect(await ask('/')).toBe('200');
  expect(await ask('/items/1', [], { host: web.address6 })).toBe('200');
  expect(await ask('/items/1', ['--http2-prior-knowledge'])).toBe('200');
});

describe('denies', () => {
  it.each<[string, string, readonly string[]]>([
    ['another method', '/items/1', ['-X', 'DELETE']],
    ['another method in small letters', '/items/1', ['-X', 'get']],
    ['another path', '/admin', []],
    ['a path that only begins like one', '/items-of-others', []],
    ['an encoded slash', '/items%2f1', []],
    ['dots behind an allowed prefix', '/items/%2e%2e/admin', []],
    ['dots that are encoded twice', '/items/%252e%252e/admin', []],
    ['an empty segment', '/items//1', []],
    ['a backslash', '/items\\..\\admin', []],
    ['a parameter', '/items;/../admin', []],
    ['bytes that are no UTF-8', '/items/%ff', []],
    ['a method that a header claims', '/items/1', ['-X', 'DELETE', '-H', 'X-HTTP-Method-Override: GET']],
    ['an upgrade of another path', '/admin', ['-H', 'Connection: Upgrade', '-H', 'Upgrade: websocket']],
    ['an upgrade to HTTP/2 of another path', '/admin', ['--http2']],
    ['a client that another address is claimed for', '/admin', ['-H', 'X-Forwarded-For: 127.0.0.1']],
  ])('%s', async (_, path, options) => {
    served.length = 0;
    const status = await ask(path, options);
    // Envoy refuses some of them itself.
    expect(['403', '400', '404', '405', '501']).toContain(status);
    expect(served.filter((each) => !each.startsWith('GET /items/') || each.includes('..'))).toEqual([]);
  });

  it('connections without requests, other ports, and what the proxy is never handed', async () => {
    expect(await client.netns.exec('nc', '-w', '1', web.address, String(TCP_PORT)).catch(() => '')).toBe('');
    expect(await ask('/items/1', [], { port: EXCLUDED_PORT })).toBe('000');
    expect(await ask('/items/1', [], { port: 9999 })).toBe('000');
    expect(await client.netns.exec('sh', '-c', `echo x | nc -w 1 -u ${web.address} ${String(HTTP_PORT)}`)).toBe('');
  });

  it('requests of a client that no rule names, whatever it says of itself', async () => {
    const other = await add('other', { labels: { app: 'other' } });
    const from = (...options: string[]): Promise<string> =>
      other.netns
        .exec(
          'curl',
          '-s',
          '-o',
          '/dev/null',
          '-w',
          '%{http_code}',
          '--max-time',
          '2',
          ...options,
          `http://${web.address}:8080/items/1`,
        )
        .catch((cause: { stdout?: string }) => cause.stdout ?? '000');
    expect(await from()).toBe('000');
    expect(await from('-H', `X-Forwarded-For: ${client.address}`)).toBe('000');
  });
});

it('shows denied requests, and the command that explains them', async () => {
  await ask('/admin?token=secret');
  let text = '';
  await until(
    async () => {
      text = await ctl('policy', 'denied', '--pod', 'shop/web');
      return text.includes('GET /admin at port 8080: denied');
    },
    () => `the request is listed: ${text}`,
  );
  expect(text).toContain(
    `shop/client (${client.address}) -> shop/web (${web.address}), GET /admin at port 8080: denied`,
  );
  expect(text).toContain('netplugctl policy why shop/client shop/web --port 8080 --method GET --path /admin');
  expect(text).toContain('/items%2f1');
  expect(text).toContain('the path is not canonical');
  // Queries hold secrets.
  expect(text).not.toContain('secret');
});

it('follows a changed policy while a connection is kept open', async () => {
  const path = '/apis/netplug.io/v3/namespaces/shop/networkpolicies/web';
  const policy = (await server.call('GET', path)) as { spec: { ingress: { http: object }[] } };
  const [rule] = policy.spec.ingress;
  if (rule === undefined) throw new Error('the policy has a rule');
  const paths = [{ prefix: '/items' }, { exact: '/' }, { exact: '/admin' }];
  await server.call('PUT', path, {
    body: { ...policy, spec: { ...policy.spec, ingress: [{ ...rule, http: { methods: ['GET'], paths } }] } },
  });
  await until(async () => (await ask('/admin')) === '200', 'the new path is allowed');
  const latest = await server.call('GET', path);
  await server.call('PUT', path, { body: { ...latest, spec: policy.spec } });
  await until(async () => (await ask('/admin')) === '403', 'the path is denied again');
  expect(await ask('/items/1')).toBe('200');
});

it('answers 503 while the sidecar is away, 200 once it is back, and closes when it stays away', async () => {
  sidecar?.kill('SIGKILL');
  await until(async () => (await ask('/items/1')) === '503', 'the proxy says that it cannot ask');
  startSidecar();
  await until(async () => (await ask('/items/1')) === '200', 'the sidecar is back');
  await untilState('guarding');
  sidecar?.kill('SIGSTOP');
  expect(await ask('/items/1')).toBe('503');
  sidecar?.kill('SIGKILL');
  await untilState('waiting');
  expect(await ask('/items/1')).toBe('000');
  startSidecar();
  await untilState('guarding');
  expect(await ask('/items/1')).toBe('200');
});

it.each<[string, object[]]>([
  ['a check that lets through what it cannot ask about', [failingOpen()]],
  [
    'a filter between the check and the application',
    [
      requestCheck(),
      { name: 'other', typed_config: { '@type': 'type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors' } },
    ],
  ],
  ['no check', []],
])('closes the port when the proxy has %s instead', async (_, ofRequests) => {
  await envoy.use({ ...BOTH_CHECKS, ofRequests });
  await until(async () => (await shown())?.ports.includes(HTTP_PORT) === false, 'the port is not guarded');
  expect(await ask('/admin')).toBe('000');
  await envoy.use(BOTH_CHECKS);
  await until(async () => (await shown())?.ports.includes(HTTP_PORT) === true, 'the port is guarded');
  expect(await ask('/items/1')).toBe('200');
});

it('goes on through a restart of the agent, and while there is none', async () => {
  const statuses: string[] = [];
  const over = new AbortController();
  const asking = (async () => {
    while (!over.signal.aborted) {
      statuses.push(await ask('/items/1'));
      await sleep(50);
    }
  })();
  await agent.stop('KILL');
  await sleep(2000);
  agent = scope.use(await startAgent(node, { env }));
  await untilState('guarding');
  await sleep(1000);
  over.abort();
  await asking;
  expect(new Set(statuses)).toEqual(new Set(['200']));
  expect(await ask('/items/1', ['-X', 'DELETE'])).toBe('403');
});

it('ends connections that began when a rule without requests allowed them and no proxy asked', async () => {
  const path = '/apis/netplug.io/v3/namespaces/shop/networkpolicies';
  const open = {
    apiVersion: 'netplug.io/v3',
    kind: 'NetworkPolicy',
    metadata: { name: 'open', namespace: 'shop' },
    spec: { order: 1, selector: "app == 'web'", types: ['Ingress'], ingress: [{ action: 'Allow' }] },
  };
  await server.call('POST', path, { body: open });
  await envoy.use({ ofRequests: [], ofConnections: [] });
  await until(async () => (await ask('/', [], { port: EXCLUDED_PORT })) === '200', 'everything is allowed');
  await until(async () => (await shown())?.ports.includes(HTTP_PORT) === false, 'the port is not guarded');
  const socket = await within(client.netns, async () => {
    const opening = connect({ host: web.address, port: HTTP_PORT });
    await once(opening, 'connect');
    return opening.on('error', () => undefined);
  });
  let answers = '';
  socket.on('data', (chunk: Buffer) => (answers += chunk.toString()));
  const askAgain = (): void => void socket.write('GET /admin HTTP/1.1\r\nHost: web\r\n\r\n');
  askAgain();
  await until(() => answers.includes('200 OK'), 'the connection is served');
  await envoy.use(BOTH_CHECKS);
  await until(async () => (await shown())?.ports.includes(HTTP_PORT) === true, 'the port is guarded');
  await server.call('DELETE', `${path}/open`);
  await until(async () => (await ask('/admin')) === '403', 'requests are judged');
  // Flows end within a second of a change.
  await sleep(2000);
  answers = '';
  served.length = 0;
  askAgain();
  await sleep(1000);
  expect([answers.includes('200 OK'), served]).toEqual([false, []]);
  socket.destroy();
});

function failingOpen(): object {
  const check = requestCheck() as { readonly typed_config: object };
  return { ...check, typed_config: { ...check.typed_config, failure_mode_allow: true } };
}

it('opens no address of a family that the proxy does not receive, and says so', async () => {
  // As a mesh without its dual-stack mode does it.
  await web.netns.exec('nft', 'delete', 'table', 'ip6', 'mesh');
  await envoy.use({ ...BOTH_CHECKS, address: '0.0.0.0' });
  await until(
    async () => (await shown())?.problems.some((each) => each.startsWith('IPv6 addresses stay closed')) === true,
    'the family is shown',
  );
  served.length = 0;
  expect(await ask('/admin', [], { host: web.address6 })).toBe('000');
  expect(await ask('/items/1')).toBe('200');
  expect(served).toEqual(['GET /items/1']);
});
