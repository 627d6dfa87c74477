// The network of a node runs in a process of its own: what becomes of calls, routes and health when that one dies.
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { openRoutingNode } from '../../scripts/bench/routing-node.ts';
import { runsHere } from '../runs.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import { type RunResult, startNode, type TestNode } from '../support/node.ts';
import { until } from '../support/until.ts';

const KILLS = 5;
const SOURCES = resolve(import.meta.dirname, '../..');
/** Enough for calls, and too small for the routes to 1000 nodes. */
const SMALL_HEAP = [
  'bash',
  '-c',
  'exec -a netplug-agent "$0" "$@"',
  process.execPath,
  '--max-old-space-size=36',
  `${SOURCES}/src/bin/main.ts`,
];

it('the agent serves every ADD and DEL while its network process is killed repeatedly', async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/24', { vxlanMode: 'Always' });
  await using agent = await startAgent(node);
  const before = await routesOf(node);
  expect(before).toContain('10.64.0.');
  const course = { isOver: false, served: 0 };
  const calls = callUntil(node, agent, course);
  for (let kill = 1; kill <= KILLS; kill += 1) {
    await node.exec('kill', '-KILL', await networkPidOf(node, agent));
    await until(async () => (await restartsOf(agent)) === kill, `restart ${String(kill)} is counted`);
    await until(() => course.served >= kill, `${String(kill)} pods are added and removed`);
  }
  course.isOver = true;
  expect(await calls).toBeGreaterThanOrEqual(KILLS);
  await agent.ready();
  expect(await routesOf(node)).toEqual(before);
  await until(() => agent.log().includes('network process exited, kernel state kept'), 'the exit is logged');
  expect(agent.log()).toContain('SIGKILL');
});

it('the agent is not ready, reports why and keeps the routes while its network process is down', async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/24', { vxlanMode: 'Always' });
  await using agent = await startAgent(node);
  const before = await routesOf(node);
  // Each death makes the pause before the next start longer.
  let [body, metrics] = ['', ''];
  await until(
    async () => {
      const pid = await findNetworkPid(node, agent);
      if (pid !== undefined) await node.run(['kill', '-KILL', pid]);
      ({ body } = await agent.ask('/readyz'));
      ({ body: metrics } = await agent.ask('/metrics'));
      const isCounted = metrics.includes('netplug_node_problems{severity="error"} 1');
      return isCounted && body.includes('network: its process exited: SIGKILL');
    },
    () => `/readyz names the death, and metrics count it:\n${body}\n${metrics}`,
  );
  expect(await routesOf(node)).toEqual(before);
  await agent.ready();
});

it('the agent serves ADD and DEL while its network process hangs, and reports that it does not respond', async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/24', { vxlanMode: 'Always' });
  await using agent = await startAgent(node);
  const pid = await networkPidOf(node, agent);
  await node.exec('kill', '-STOP', pid);
  const course = { isOver: false, served: 0 };
  const calls = callUntil(node, agent, course);
  await until(
    async () => (await notReady(node)).includes('network: its process did not answer within 5 s'),
    '/readyz says so',
  );
  course.isOver = true;
  await node.exec('kill', '-CONT', pid);
  expect(await calls).toBeGreaterThan(1);
  await agent.ready();
});

/** A process reads hundreds of nodes before its heap is full, and collects garbage in vain, on a machine with other tests. */
const CRASH_MS = 100_000;

it.runIf(runsHere('e2e/network-process: out of memory'))(
  'the agent serves ADD and DEL while its network process runs out of memory',
  async () => {
    await using routing = await openRoutingNode();
    const { node } = routing;
    await routing.remote.growTo(1000);
    await using agent = await routing.launchAgent({ command: SMALL_HEAP });
    await until(async () => (await restartsOf(agent)) > 0, 'the network process has ended', CRASH_MS);
    const course = { isOver: false, served: 0 };
    const calls = callUntil(node, agent, course, { ipv4_pools: ['own'] });
    // Meanwhile the next process fills its heap.
    await until(() => course.served > 10, 'calls are served', CRASH_MS);
    course.isOver = true;
    await calls;
    await until(() => agent.log().includes('heap out of memory'), 'the reason is logged');
    expect(course.served).toBeGreaterThan(10);
  },
  300_000,
);

it('the agent ends its network process, both on SIGTERM and when it is killed', async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/24', { vxlanMode: 'Always' });
  for (const signal of ['KILL', 'TERM'] as const) {
    await using agent = await startAgent(node);
    await networkPidOf(node, agent);
    await agent.stop(signal);
    const found = async (): Promise<RunResult> => node.run(['pgrep', '--full', '^netplug-network']);
    await expect.poll(found, { timeout: 60_000, message: `after SIG${signal}` }).toMatchObject({ stdout: '' });
  }
});

/** Adds and removes a pod until the signal aborts; the agent must serve every call. Returns the number of calls. */
async function callUntil(
  node: TestNode,
  agent: Agent,
  course: { readonly isOver: boolean; served: number },
  pools: object = {},
): Promise<number> {
  const { path: netns } = await node.pod();
  const conf = node.netconf({ ipam: { type: 'netplug-ipam', ...pools } });
  for (; !course.isOver; course.served += 1) {
    const call = {
      containerId: `c${String(course.served)}`,
      netns,
      conf,
      env: { NETPLUG_SOCKET: agent.socket },
    };
    expect(await node.cni('ADD', call)).toMatchObject({ status: 0 });
    expect(await node.cni('DEL', call)).toMatchObject({ status: 0 });
  }
  // A busy network process delays the metrics for longer than a request of the test waits.
  const total = `netplug_calls_total{command="ADD",code="ok"} ${String(course.served)}`;
  await until(async () => (await agent.ask('/metrics')).body.includes(total), `the metrics contain ${total}`);
  return course.served;
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

/** Asks with a longer timeout than `Agent.ask`. */
async function notReady(node: TestNode): Promise<string> {
  return (await node.run(['curl', '--silent', '--max-time', '10', 'http://127.0.0.1:9199/readyz'])).stdout;
}

async function restartsOf(agent: Agent): Promise<number> {
  return Number(/^netplug_network_restarts_total (\d+)$/m.exec((await agent.ask('/metrics')).body)?.[1]);
}

async function routesOf(node: TestNode): Promise<string> {
  return node.exec('ip', 'route', 'show', 'proto', '118');
}

it('a network process that hangs dies with its agent, and the next agent has the network', async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/24');
  const agent = await startAgent(node);
  const pid = await networkPidOf(node, agent);
  await node.exec('kill', '-STOP', pid);
  await agent.stop('KILL');
  // One that has ended has no command line, also before it is reaped.
  await until(async () => (await node.run(['cat', `/proc/${pid}/cmdline`])).stdout === '', 'the process has ended');
  await using next = await startAgent(node);
  expect((await next.ask('/readyz')).status).toBe(200);
});
