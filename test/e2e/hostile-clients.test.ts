// No client of the agent's socket delays the calls of runtimes, whatever it sends.
import { createConnection, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encodeRequest } from '../../src/apps/agent/wire.ts';
import { errnoOf } from '../../src/base/errors.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import type { TestNetns } from '../support/netns.ts';
import { startNode, type TestNode, until } from '../support/node.ts';

const CONNECTIONS = 600;
const QUEUE_IS_FULL_MS = 20;
/** Less than the agent waits for the request of a connection: a call that waits behind one takes longer. */
const LONGEST_MS = 9000;

let scope: AsyncDisposableStack;
let node: TestNode;
let agent: Agent;
let pod: TestNetns;
beforeEach(async () => {
  scope = new AsyncDisposableStack();
  node = scope.use(await startNode({ mode: 'standalone' }));
  await node.seedPool('v4', '10.65.0.0/24');
  agent = await startAgent(node);
  pod = await node.pod();
});
afterEach(async () => scope.disposeAsync());

async function connected(): Promise<Socket> {
  const socket = createConnection({ path: agent.socket });
  scope.defer(() => void socket.destroy());
  let refusal: string | undefined;
  socket.on('error', (cause) => (refusal = errnoOf(cause)));
  socket.resume();
  await new Promise<void>((settle) => socket.on('connect', settle).on('close', settle));
  if (refusal !== 'EAGAIN') return socket;
  await setTimeout(QUEUE_IS_FULL_MS);
  return connected();
}

async function connectMany(act: (socket: Socket, index: number) => void): Promise<readonly Socket[]> {
  const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, async () => connected()));
  for (const [index, socket] of sockets.entries()) act(socket, index);
  return sockets;
}

/** Some calls, one after the other; how many of them the agent has served. */
async function expectCallsAtOnce(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    for (const verb of ['ADD', 'DEL']) {
      const startMs = Date.now();
      const answer = await node.cni(verb, {
        containerId: `c${String(round)}`,
        netns: pod.path,
        conf: node.netconf(),
        env: { NETPLUG_SOCKET: agent.socket },
      });
      expect(answer).toMatchObject({ status: 0 });
      expect(Date.now() - startMs).toBeLessThan(LONGEST_MS);
    }
  }
  const metrics = await node.exec('curl', '--silent', 'http://127.0.0.1:9199/metrics');
  return [...metrics.matchAll(/^netplug_call_duration_seconds_count\{.*command="(?:ADD|DEL)".*\} (\d+)$/gm)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
}

function dripFrom(socket: Socket, bytes: Buffer): void {
  let at = 0;
  const timer = setInterval(() => socket.write(bytes.subarray(at, (at += 1))), 1000);
  socket.on('close', () => {
    clearInterval(timer);
  });
}

describe(`${String(CONNECTIONS)} connections`, () => {
  const request = encodeRequest({ kind: 'netplug', env: { CNI_COMMAND: 'ADD' }, stdin: '{"name": "x"}' });

  it.each<[string, (socket: Socket) => void]>([
    ['that say nothing', () => undefined],
    ['that send a byte per second', (socket) => dripFrom(socket, request)],
    ['that send garbage', (socket) => void socket.write(Buffer.alloc(4096, 0xff))],
    ['that send half a request and go', (socket) => void socket.end(request.subarray(0, request.length / 2))],
    ['that ask for much and take no answer', (socket) => void socket.pause().write(request)],
  ])('%s hold no call up and go in the end', async (_what, act) => {
    const sockets = await connectMany(act);
    await expectCallsAtOnce();
    // A socket that is not read does not report its end.
    for (const socket of sockets) socket.resume();
    await until(() => sockets.every(({ closed }) => closed), 'the agent has closed them all');
    expect(await expectCallsAtOnce()).toBeGreaterThanOrEqual(6);
    expect(agent.log()).not.toMatch(/internal\//);
    await until(async () => (await node.heldAddresses()).length === 0, 'every address is free');
  });
});
