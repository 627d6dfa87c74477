// The network of a node runs in a process of its own: what becomes of calls, routes and health when that one dies.
import { expect, it } from 'vitest';
import { type Agent, startAgent } from '../support/agent.ts';
import { type RunResult, startNode, type TestNode } from '../support/node.ts';
import { until } from '../support/until.ts';

const KILLS = 5;

it('serves every ADD and DEL while its network process is killed again and again', async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/24', { vxlanMode: 'Always' });
  await using agent = await startAgent(node);
  const before = await routesOf(node);
  expect(before).toContain('10.64.0.');
  const course = { isOver: false };
  const calls = callUntil(node, agent, course);
  for (let kill = 1; kill <= KILLS; kill += 1) {
    await node.exec('kill', '-KILL', await networkPidOf(node, agent));
    await until(async () => (await restartsOf(agent)) === kill, `restart ${String(kill)} is counted`);
  }
  course.isOver = true;
  expect(await calls).toBeGreaterThan(KILLS);
  await agent.ready();
  expect(await routesOf(node)).toEqual(before);
  expect(agent.log()).toContain('network process ended, kernel state kept');
  expect(agent.log()).toContain('SIGKILL');
});

it('is not ready, says why and keeps the routes while its network process is down', async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/24', { vxlanMode: 'Always' });
  await using agent = await startAgent(node);
  const before = await routesOf(node);
  // Each death makes the pause before the next start longer.
  let body = '';
  await until(
    async () => {
      const pid = await findNetworkPid(node, agent);
      if (pid !== undefined) await node.run(['kill', '-KILL', pid]);
      ({ body } = await agent.ask('/readyz'));
      return body.includes('network: its process ended: SIGKILL');
    },
    () => `/readyz names the death:\n${body}`,
  );
  const { body: metrics } = await agent.ask('/metrics');
  expect(metrics).toContain('netplug_network_problems 1');
  expect(await routesOf(node)).toEqual(before);
  await agent.ready();
});

it('ends its network process with it, killed or asked to end', async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/24', { vxlanMode: 'Always' });
  for (const signal of ['KILL', 'TERM'] as const) {
    await using agent = await startAgent(node);
    await networkPidOf(node, agent);
    await agent.stop(signal);
    const found = async (): Promise<RunResult> => node.run(['pgrep', '--full', '^netplug-network']);
    await expect.poll(found, { timeout: 10_000, message: `after SIG${signal}` }).toMatchObject({ stdout: '' });
  }
});

/** Adds and removes a pod until told to end; the agent must serve every call. Returns how many there were. */
async function callUntil(node: TestNode, agent: Agent, course: { readonly isOver: boolean }): Promise<number> {
  const { path: netns } = await node.pod();
  let count = 0;
  for (; !course.isOver; count += 1) {
    const call = {
      containerId: `c${String(count)}`,
      netns,
      conf: node.netconf(),
      env: { NETPLUG_SOCKET: agent.socket },
    };
    expect(await node.cni('ADD', call)).toMatchObject({ status: 0 });
    expect(await node.cni('DEL', call)).toMatchObject({ status: 0 });
  }
  const { body } = await agent.ask('/metrics');
  expect(body).toContain(`netplug_calls_total{command="ADD",code="ok"} ${String(count)}`);
  return count;
}

async function networkPidOf(node: TestNode, agent: Agent): Promise<string> {
  let pid: string | undefined;
  await until(async () => (pid = await findNetworkPid(node, agent)) !== undefined, 'the network process runs');
  return pid ?? '';
}

async function findNetworkPid(node: TestNode, { pid }: Agent): Promise<string | undefined> {
  const { stdout } = await node.run(['pgrep', '--parent', String(pid), '--full', '^netplug-network']);
  return stdout.trim() === '' ? undefined : stdout.trim();
}

async function restartsOf(agent: Agent): Promise<number> {
  return Number(/^netplug_network_restarts_total (\d+)$/m.exec((await agent.ask('/metrics')).body)?.[1]);
}

async function routesOf(node: TestNode): Promise<string> {
  return node.exec('ip', 'route', 'show', 'proto', '118');
}
