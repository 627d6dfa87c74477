// Rules about requests, with a real Envoy that asks netplug-sidecar, and real packets. The mesh itself is in the soak.
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { requestCheck } from '../../src/mesh/check-filter.ts';
import { CHECK_SOCKET } from '../../src/policy/feed/messages.ts';
import { BOTH_CHECKS, type RunningEnvoy, startEnvoy } from '../support/envoy.ts';
import {
  EXCLUDED_PORT,
  HTTP_PORT,
  type RunningSidecar,
  type ScenePod,
  sidecarScene,
  type SidecarScene,
  TCP_PORT,
} from '../support/sidecar-scene.ts';
import { within } from '../support/tcp-echo.ts';
import { until } from '../support/until.ts';

const scope = new AsyncDisposableStack();
let scene: SidecarScene;
let web: ScenePod;
let client: ScenePod;
let envoy: RunningEnvoy;
let sidecar: RunningSidecar | undefined;

beforeAll(async () => {
  scene = scope.use(await sidecarScene());
  ({ web, client } = scene);
}, 180_000);
afterAll(async () => scope.disposeAsync());

const ask: SidecarScene['ask'] = async (...args) => scene.ask(...args);
const shown: SidecarScene['shown'] = async () => scene.shown();
const untilState: SidecarScene['untilState'] = async (state) => scene.untilState(state);

function startSidecar(): void {
  sidecar = scene.startSidecar();
}

const CHUNKED = 'Transfer-Encoding: chunked';

/** An allowed request, without a body. */
function requestOf(...headers: readonly string[]): string {
  return `${['GET /items/1 HTTP/1.1', 'Host: web', ...headers.filter((each) => each !== '')].join('\r\n')}\r\n\r\n`;
}

function hidden(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: web\r\n\r\n`;
}

/** What the application was asked, and no rule allows. */
function notAllowed(): readonly string[] {
  return scene.served.filter(
    (each) => !/^GET \/(items(\/|$))?/.test(each) || each.includes('..') || each.includes('admin'),
  );
}

async function openConnection(): Promise<Socket> {
  return within(client.netns, async () => {
    const opening = connect({ host: web.address, port: HTTP_PORT });
    await once(opening, 'connect');
    return opening.on('error', () => undefined);
  });
}

/** Returns when the proxy has answered and says no more. */
async function send(bytes: string): Promise<string> {
  const socket = await openConnection();
  let answers = '';
  const heard = new Promise<void>((resolve) => {
    socket.on('data', (chunk: Buffer) => {
      answers += chunk.toString();
      socket.setTimeout(300);
    });
    socket.on('timeout', resolve).on('close', () => resolve());
  });
  socket.setTimeout(2000);
  socket.write(bytes);
  await heard;
  socket.destroy();
  return answers;
}

async function sendOverHttp2(path: string): Promise<void> {
  const socket = await openConnection();
  const session = connectHttp2(`http://${web.address}`, { createConnection: () => socket });
  session.on('error', () => undefined);
  const request = session.request({ ':path': path });
  request.on('error', () => undefined).resume();
  const gone = new Promise<void>((resolve) => void request.on('close', () => resolve()));
  request.setTimeout(2000, () => request.close());
  await gone;
  session.destroy();
}

it('opens nothing without a proxy that asks', async () => {
  expect(await ask('/items/1')).toBe('000');
  expect(await shown()).toMatchObject({ pod: 'shop/web', state: 'waiting', ports: [] });
});

it('opens nothing while another program of the pod has the socket of the sidecar, which ends and says so', async () => {
  const squatter = createServer();
  await within(web.netns, async () => {
    squatter.listen(CHECK_SOCKET);
    await once(squatter, 'listening');
  });
  startSidecar();
  expect(await sidecar?.ended()).toMatchObject({ status: 73, output: expect.stringContaining('sidecar/name-taken') });
  expect(await shown()).toMatchObject({ state: 'waiting', ports: [] });
  expect(await ask('/items/1')).toBe('000');
  squatter.close();
  await once(squatter, 'close');
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
    scene.served.length = 0;
    for (const protocol of [[], ['--http2-prior-knowledge']]) {
      // Envoy refuses some of them itself, over HTTP/2 by a reset.
      expect(['403', '400', '404', '405', '501', '000']).toContain(await ask(path, [...options, ...protocol]));
    }
    expect(notAllowed()).toEqual([]);
  });

  // Two readings of where a request ends, or of what it asks for.
  it.each<[string, string]>([
    ['a method of the whole server', 'OPTIONS * HTTP/1.1\r\nHost: web\r\n\r\n'],
    ['a tunnel', 'CONNECT 127.0.0.1:8080 HTTP/1.1\r\nHost: web\r\n\r\nGET /admin HTTP/1.1\r\nHost: web\r\n\r\n'],
    ['the absolute form of another path', 'GET http://web/admin HTTP/1.1\r\nHost: web\r\n\r\n'],
    ['the second of two requests sent at once', `${requestOf('')}${hidden('/admin')}`],
    [
      'a request behind a length and chunks',
      `${requestOf(`Content-Length: ${String(hidden('/admin').length + 5)}`, CHUNKED)}0\r\n\r\n${hidden('/admin')}`,
    ],
    ['a request behind two lengths', `${requestOf('Content-Length: 0', 'Content-Length: 41')}${hidden('/admin')}`],
    [
      'a request behind a blank before the colon',
      `${requestOf('Transfer-Encoding : chunked')}0\r\n\r\n${hidden('/admin')}`,
    ],
    [
      'a request behind an encoding that is none',
      `${requestOf('Transfer-Encoding: xchunked')}0\r\n\r\n${hidden('/admin')}`,
    ],
    [
      'a request behind a folded header',
      `${requestOf('X-Other: 1\r\n Transfer-Encoding: chunked')}0\r\n\r\n${hidden('/admin')}`,
    ],
    ['a request behind lines that end early', `GET /items/1 HTTP/1.1\nHost: web\n\n${hidden('/admin')}`],
    [
      'a request behind an upgrade that the application refuses',
      `${requestOf('Connection: Upgrade', 'Upgrade: websocket')}${hidden('/admin')}`,
    ],
    [
      'a request behind an upgrade to HTTP/2',
      `${requestOf('Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQCAAAA')}${hidden('/admin')}`,
    ],
  ])('%s', async (_, bytes) => {
    scene.served.length = 0;
    expect(await send(bytes)).toMatch(/^HTTP\/1\.1 \d/);
    expect(notAllowed()).toEqual([]);
  });

  it.each([
    'http://web/admin',
    '*',
    '/items/../admin',
    '/items/1\u0000/../../admin',
    '/items/\\..\\..\\admin',
    '//admin',
  ])('the path %j of HTTP/2', async (path) => {
    scene.served.length = 0;
    await sendOverHttp2(path);
    expect(notAllowed()).toEqual([]);
  });

  it('connections without requests, other ports, and what the proxy is never handed', async () => {
    expect(await client.netns.exec('nc', '-w', '1', web.address, String(TCP_PORT)).catch(() => '')).toBe('');
    expect(await ask('/items/1', [], { port: EXCLUDED_PORT })).toBe('000');
    expect(await ask('/items/1', [], { port: 9999 })).toBe('000');
    expect(await client.netns.exec('sh', '-c', `echo x | nc -w 1 -u ${web.address} ${String(HTTP_PORT)}`)).toBe('');
  });

  it('requests of a client that no rule names, whatever it says of itself', async () => {
    const other = await scene.add('other', { labels: { app: 'other' } });
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
      text = await scene.ctl('policy', 'denied', '--pod', 'shop/web');
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
  const policy = (await scene.server.call('GET', path)) as { spec: { ingress: { http: object }[] } };
  const [rule] = policy.spec.ingress;
  if (rule === undefined) throw new Error('the policy has a rule');
  const paths = [{ prefix: '/items' }, { exact: '/' }, { exact: '/admin' }];
  await scene.server.call('PUT', path, {
    body: { ...policy, spec: { ...policy.spec, ingress: [{ ...rule, http: { methods: ['GET'], paths } }] } },
  });
  await until(async () => (await ask('/admin')) === '200', 'the new path is allowed');
  const latest = await scene.server.call('GET', path);
  await scene.server.call('PUT', path, { body: { ...latest, spec: policy.spec } });
  await until(async () => (await ask('/admin')) === '403', 'the path is denied again');
  expect(await ask('/items/1')).toBe('200');
});

/** Returns the code of gRPC that a call is answered. */
async function call(method: string): Promise<string | undefined> {
  const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers', '--data-binary', ''];
  const options = [
    '-s',
    '--http2-prior-knowledge',
    '-X',
    'POST',
    ...headers,
    '--max-time',
    '1',
    '-D',
    '-',
    '-o',
    '/dev/null',
  ];
  const shown = await client.netns.exec('curl', ...options, `http://${web.address}:${String(HTTP_PORT)}${method}`);
  return /^grpc-status: (\d+)/m.exec(shown)?.[1];
}

it('answers 503 while the sidecar is away, 200 once it is back, and closes when it stays away', async () => {
  const [permissionDenied, unavailable] = ['7', '14'];
  expect(await call('/items.Items/Delete')).toBe(permissionDenied);
  sidecar?.process.kill('SIGKILL');
  await until(async () => (await ask('/items/1')) === '503', 'the proxy says that it cannot ask');
  expect(await call('/items.Items/Delete')).toBe(unavailable);
  startSidecar();
  await until(async () => (await ask('/items/1')) === '200', 'the sidecar is back');
  await untilState('guarding');
  sidecar?.process.kill('SIGSTOP');
  expect(await ask('/items/1')).toBe('503');
  sidecar?.process.kill('SIGKILL');
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
  await scene.killAgent();
  await sleep(2000);
  await scene.startAgent();
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
  await scene.server.call('POST', path, { body: open });
  await envoy.use({ ofRequests: [], ofConnections: [] });
  await until(async () => (await ask('/', [], { port: EXCLUDED_PORT })) === '200', 'everything is allowed');
  await until(async () => (await shown())?.ports.includes(HTTP_PORT) === false, 'the port is not guarded');
  const socket = await openConnection();
  let answers = '';
  socket.on('data', (chunk: Buffer) => (answers += chunk.toString()));
  const askAgain = (): void => void socket.write('GET /admin HTTP/1.1\r\nHost: web\r\n\r\n');
  askAgain();
  await until(() => answers.includes('200 OK'), 'the connection is served');
  await envoy.use(BOTH_CHECKS);
  await until(async () => (await shown())?.ports.includes(HTTP_PORT) === true, 'the port is guarded');
  await scene.server.call('DELETE', `${path}/open`);
  await until(async () => (await ask('/admin')) === '403', 'requests are judged');
  // Flows end within a second of a change.
  await sleep(2000);
  answers = '';
  scene.served.length = 0;
  askAgain();
  await sleep(1000);
  expect([answers.includes('200 OK'), scene.served]).toEqual([false, []]);
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
  scene.served.length = 0;
  expect(await ask('/admin', [], { host: web.address6 })).toBe('000');
  expect(await ask('/items/1')).toBe('200');
  expect(scene.served).toEqual(['GET /items/1']);
});
