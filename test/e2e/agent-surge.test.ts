// Two pods of agents on one node, as during an upgrade with maxSurge: which one serves, which one is ready, which one ends.
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Agent, launchAgent, startAgent } from '../support/agent.ts';
import { startNode, type TestNode, until } from '../support/node.ts';
import { BUILT } from '../support/built.ts';

const PROBE = join(BUILT, 'netplug-probe');
/** Longer than an agent waits for another one. */
const STAND_BY_MS = 10_000;

let scope: AsyncDisposableStack;
let node: TestNode;
let old: Agent;
beforeEach(async () => {
  scope = new AsyncDisposableStack();
  node = scope.use(await startNode({ mode: 'standalone' }));
  await node.seedPool('v4', '10.65.0.0/24');
  old = scope.use(await startAgent(node, { env: { POD_NAME: 'old' } }));
});
afterEach(async () => scope.disposeAsync());

const readyOf = async (pod: string): Promise<number> => (await old.ask(`/readyz?pod=${pod}`)).status;

async function addPod(id: string): Promise<void> {
  const call = {
    conf: node.netconf(),
    containerId: id,
    netns: (await node.pod()).path,
    env: { NETPLUG_SOCKET: old.socket },
  };
  expect(await node.cni('ADD', call)).toMatchObject({ status: 0 });
}

/** Starts the next agent and waits until its probe succeeds. */
async function surge(): Promise<Agent> {
  expect([await readyOf('old'), await readyOf('next')]).toEqual([200, 503]);
  const next = scope.use(await launchAgent(node, { env: { POD_NAME: 'next' } }));
  await until(
    async () => (await readyOf('next')) === 200,
    () => `the next agent is ready:\n${next.log()}`,
  );
  return next;
}

it('the next agent becomes ready and serves while the old one stands by', async () => {
  const next = await surge();
  expect(await readyOf('old')).toBe(503);
  await until(() => old.log().includes('agent suspended'), 'the old agent stands by');
  await addPod('by-next');
  const probe = async (pod: string) =>
    node.run([PROBE, '/readyz'], { env: { POD_NAME: pod, NETPLUG_SOCKET: old.socket } });
  expect(await probe('next')).toMatchObject({ status: 0, stdout: 'ok\n' });
  expect(await probe('old')).toMatchObject({ status: 1, stdout: expect.stringContaining('this is pod "next"') });
  await old.stop();
  expect(old.log()).not.toContain('agent exited');
  expect(next.log()).not.toContain('takeover requested');
});

it('the old agent exited, so that its container is restarted and serves, when the next one dies and does not return', async () => {
  const next = await surge();
  await until(() => old.log().includes('agent suspended'), 'the old agent stands by');
  await next.stop('KILL');
  let hasEnded = false;
  void old.ended.then(() => (hasEnded = true));
  await addPod('without-agent');
  await until(() => hasEnded, 'the old agent exited', STAND_BY_MS);
  old = scope.use(await startAgent(node, { env: { POD_NAME: 'old' } }));
  expect(await readyOf('old')).toBe(200);
});
