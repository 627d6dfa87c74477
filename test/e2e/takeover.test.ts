// One agent follows another while runtimes call without pause.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Agent, launchAgent, startAgent } from '../support/agent.ts';
import { type CallLane, callWithoutPause, failuresOf, startLanes } from '../support/call-lanes.ts';
import { startNode, type TestNode, until } from '../support/node.ts';

const AT_ONCE = 8;
const TAKEOVERS = 5;
/** A call that waits for an agent in vain takes a minute. */
const LONGEST_MS = 20_000;
/** The shim needs far less, the standalone program far more. */
const STANDALONE_CPU_MS = 20;

let scope: AsyncDisposableStack;
let node: TestNode;
let env: Readonly<Record<string, string>>;
let agent: Agent;
let lanes: readonly CallLane[];
beforeEach(async () => {
  scope = new AsyncDisposableStack();
  node = scope.use(await startNode({ mode: 'standalone' }));
  await node.seedPool('v4', '10.65.0.0/24');
  agent = await startAgent(node);
  env = { NETPLUG_SOCKET: agent.socket };
  lanes = await startLanes(node, { count: AT_ONCE, prefix: 'lane', scope });
});
afterEach(async () => scope.disposeAsync());

function callsInFlight(): ReturnType<typeof callWithoutPause> {
  return callWithoutPause(node, { lanes, plugin: `${node.cniPath}/netplug`, env, netconf: node.netconf() });
}

async function expectNothingLeft(): Promise<void> {
  await until(async () => (await node.heldAddresses()).length === 0, 'every address is free');
  expect(await node.endpoints()).toEqual([]);
  expect(await node.hostLinks()).toEqual([]);
  for (const { pod } of lanes) expect((await pod.ip('link')).map(({ ifname }) => String(ifname))).toEqual(['lo']);
  await agent.stop();
  const blocks = [...(await node.records('ipam/blocks/')).values()];
  expect(blocks.filter((block) => JSON.stringify(block).includes('#'))).toEqual([]);
  expect((await node.run(['ls', '-A', `/var/lib/netplug/journal`])).stdout).toBe('');
}

describe('a new agent', () => {
  it(`takes over ${String(TAKEOVERS)} times while ${String(AT_ONCE)} calls are always in flight, and none fails`, async () => {
    const calls = callsInFlight();
    for (let time = 0; time < TAKEOVERS; time += 1) {
      await sleep(300);
      const next = await launchAgent(node);
      await agent.ended;
      agent = next;
      await until(
        () => next.log().includes('agent started'),
        () => `the new agent serves:\n${next.log()}`,
      );
    }
    await sleep(300);
    const runs = await calls.stop();
    expect(failuresOf(runs)).toEqual([]);
    expect(Math.max(...runs.map(({ ms }) => ms))).toBeLessThan(LONGEST_MS);
    const alone = runs.filter(({ cpuMs }) => cpuMs > STANDALONE_CPU_MS).length;
    process.stdout.write(`${String(alone)} of ${String(runs.length)} calls were served by the standalone program\n`);
    expect(alone).toBeLessThan(TAKEOVERS * AT_ONCE);
    await expectNothingLeft();
  });

  it.each([
    ['settings that are wrong', { NETPLUG_WARM_POOL_SIZE: 'many' }, /NETPLUG_WARM_POOL_SIZE is "many"/],
    ['a datastore that is not there', { KV_ENDPOINTS: 'http://127.0.0.1:9' }, /127\.0\.0\.1:9/],
  ])('with %s leaves the old one in its place', async (_what, more, reason) => {
    const calls = callsInFlight();
    const broken = await launchAgent(node, { env: more });
    await broken.ended;
    expect(broken.log()).toMatch(reason);
    const runs = await calls.stop();
    expect(failuresOf(runs)).toEqual([]);
    expect(runs.filter(({ cpuMs }) => cpuMs > STANDALONE_CPU_MS)).toEqual([]);
    await expectNothingLeft();
  });

  it.each([
    ['goes on', async (old: Agent) => old.resume()],
    ['is killed', async (old: Agent) => old.stop('KILL')],
  ])('says so when the old one hangs, calls are served meanwhile, and all is right when it %s', async (_how, end) => {
    await agent.pause();
    const next = await launchAgent(node);
    const calls = callsInFlight();
    await until(
      () => next.log().includes('takeover request failed'),
      () => `it says that the other hangs:\n${next.log()}`,
    );
    await end(agent);
    await agent.ended;
    agent = next;
    await until(
      () => next.log().includes('agent started'),
      () => `the new agent serves:\n${next.log()}`,
    );
    const before = (await calls.stop()).length;
    expect(before).toBeGreaterThan(AT_ONCE);
    const runs = await callsInFlight().stop();
    expect(failuresOf(runs)).toEqual([]);
    await expectNothingLeft();
  });
});
