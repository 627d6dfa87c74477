// Rules about requests while a thousand requests a second go through and a part of the chain fails, with a real Envoy. Whatever fails, no
// request that the policy denies is served, and none that it allows is answered as denied.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CHECK_SOCKET } from '../../src/policy/feed/messages.ts';
import { program } from '../support/components.ts';
import { startEnvoy } from '../support/envoy.ts';
import { here } from '../support/here.ts';
import {
  type Answers,
  type RequestStream,
  startRequestStream,
  type StreamedRequest,
} from '../support/request-stream.ts';
import { HTTP_PORT, type RunningSidecar, sidecarScene, type SidecarScene } from '../support/sidecar-scene.ts';
import { within } from '../support/tcp-echo.ts';
import { until } from '../support/until.ts';

const PER_SECOND = 1000;
const ALLOWED: readonly StreamedRequest[] = [
  { method: 'GET', path: '/items/1' },
  { method: 'GET', path: '/' },
];
const DENIED: readonly StreamedRequest[] = [
  { method: 'DELETE', path: '/items/1' },
  { method: 'GET', path: '/admin' },
];
const scope = new AsyncDisposableStack();
let scene: SidecarScene;
let sidecar: RunningSidecar;
let stream: RequestStream;

beforeAll(async () => {
  scene = scope.use(await sidecarScene());
  sidecar = scene.startSidecar();
  scope.use(await startEnvoy(scene.web.netns, { httpPorts: [HTTP_PORT] }));
  await scene.untilState('guarding');
  const requests = [...ALLOWED, ...DENIED];
  stream = scope.use(
    startRequestStream(scene.client.netns, {
      host: scene.web.address,
      port: HTTP_PORT,
      perSecond: PER_SECOND,
      requests,
    }),
  );
}, 180_000);
afterAll(async () => scope.disposeAsync());

/** Sums of answers to the requests, of those that are given. */
function answersTo(taken: Answers, requests: readonly StreamedRequest[]): Readonly<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const { method, path } of requests) {
    for (const [answer, times] of Object.entries(taken[`${method} ${path}`] ?? {}))
      sums[answer] = (sums[answer] ?? 0) + times;
  }
  return sums;
}

/** Waits until allowed requests are served and denied ones refused again, and nothing else is answered for a second. */
async function untilSound(): Promise<void> {
  let seen = {};
  await until(
    async () => {
      await stream.take();
      await sleep(1000);
      const taken = await stream.take();
      const [allowed, denied] = [answersTo(taken, ALLOWED), answersTo(taken, DENIED)];
      seen = { allowed, denied };
      return Object.keys(allowed).join() === '200' && Object.keys(denied).join() === '403';
    },
    () => `requests are judged again: ${JSON.stringify(seen)}`,
    60_000,
  );
}

it.each<[string, string, () => Promise<void>]>([
  ['nothing fails', '200', async () => sleep(5000)],
  [
    'the sidecar is killed, and started again',
    '503',
    async () => {
      for (let round = 0; round < 3; round += 1) {
        sidecar.process.kill('SIGKILL');
        await sidecar.ended();
        await sleep(200);
        sidecar = scene.startSidecar();
        await sleep(1000);
      }
    },
  ],
  [
    'the sidecar hangs for longer than it may be behind',
    '503',
    async () => {
      sidecar.process.kill('SIGSTOP');
      await sleep(8000);
      sidecar.process.kill('SIGCONT');
    },
  ],
  [
    'the agent is killed, and started again',
    '200',
    async () => {
      await scene.killAgent();
      await sleep(2000);
      await scene.startAgent();
    },
  ],
  [
    'the sidecar is started again while there is no agent',
    '503',
    async () => {
      await scene.killAgent();
      sidecar.process.kill('SIGKILL');
      await sidecar.ended();
      sidecar = scene.startSidecar();
      await sleep(2000);
      await scene.startAgent();
    },
  ],
  [
    'another program of the pod fills the socket of the sidecar',
    '200',
    async () => {
      const sockets = await within(scene.web.netns, async () =>
        Promise.resolve(Array.from({ length: 2000 }, () => connect(CHECK_SOCKET).on('error', () => undefined))),
      );
      for (const socket of sockets) socket.write('GET / HTTP/1.1\r\n\r\n'.repeat(100));
      await sleep(5000);
      await Promise.all(sockets.map(closed));
    },
  ],
])(
  'neither serves what is denied nor denies what is allowed while %s',
  async (_, answer, fail) => {
    await untilSound();
    await stream.take();
    await fail();
    const taken = await stream.take();
    const [allowed, denied] = [answersTo(taken, ALLOWED), answersTo(taken, DENIED)];
    expect({ denied, allowed }).not.toMatchObject({ denied: { 200: expect.any(Number) } });
    expect({ denied, allowed }).not.toMatchObject({ allowed: { 403: expect.any(Number) } });
    // It was seen to happen, under load.
    expect(allowed).toMatchObject({ [answer]: expect.toSatisfy((times) => times > 100) });
    await untilSound();
  },
  180_000,
);

describe("answers a client of Envoy's own messages and gRPC's own library", () => {
  const check = (method: string, path: string, more: object = {}): object => ({
    source: scene.client.address,
    sourcePort: 40_000,
    destination: scene.web.address,
    port: HTTP_PORT,
    method,
    path,
    ...more,
  });
  /** Codes of the call and of the check, for each. */
  const verdicts = async (checks: readonly object[], ...options: readonly string[]): Promise<string[]> => {
    const command = ['nsenter', `--net=${scene.web.netns.path}`, program('authz-client'), ...options];
    const stdin = checks.map((each) => JSON.stringify(each)).join('\n');
    const { status, stdout, stderr } = await here.run(command, { stdin });
    if (status !== 0) throw new Error(stderr);
    return stdout.trim().split('\n');
  };

  it('with what the policy says', async () => {
    const principal = 'spiffe://cluster.local/ns/shop/sa/default';
    expect(
      await verdicts([
        check('GET', '/items/1?q=%2e'),
        check('GET', '/items/1', { principal }),
        check('DELETE', '/items/1'),
        check('GET', '/items/%2e%2e/admin'),
        check('GET', '/items/1', { source: '10.65.0.250' }),
        // Raw TCP.
        check('', ''),
        check('GET', '/items/1', { source: 'nowhere' }),
      ]),
    ).toEqual(['0 0', '0 0', '0 7', '0 7', '0 7', '0 7', '14 0']);
  });

  it('with flow control: twenty times what the window of a connection holds', async () => {
    const checks = Array.from({ length: 4000 }, (_, index) =>
      check(index % 2 === 0 ? 'GET' : 'DELETE', '/items/1', { padding: 5000 }),
    );
    const answers = await verdicts(checks, '-at-once', '100');
    expect(answers).toEqual(checks.map((_, index) => (index % 2 === 0 ? '0 0' : '0 7')));
  });

  it('with an error for a check that is too large, and goes on', async () => {
    expect(
      await verdicts([
        check('GET', '/items/1', { padding: 100_000 }),
        check('GET', '/items/1', { padding: 10_000_000 }),
        check('GET', '/items/1'),
      ]),
    ).toEqual(['8 0', '8 0', '0 0']);
  });
});

async function closed(socket: Socket): Promise<void> {
  if (socket.closed) return;
  const ended = once(socket, 'close');
  socket.destroy();
  await ended;
}
