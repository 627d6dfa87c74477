// What routes between nodes dies while pods talk.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runsHere } from '../runs.ts';
import { type Fabric, type FabricNode, startFabric } from '../support/fabric.ts';
import { takeAwayEtcd } from '../support/node-etcd.ts';
import { type Flow, startFlows, stopFlows } from '../support/traffic-flow.ts';
import { type Pair, pairsOf, expectReached } from '../support/traffic.ts';
import { until } from '../support/until.ts';

/** Time for a fault to take effect: sessions break, watches end, agents retry. */
const WHILE_MS = 4000;
const AT_LEAST = WHILE_MS / 40;

describe.each([
  { name: 'VXLAN', vxlanMode: 'Always' },
  ...(runsHere('e2e/between-nodes-failures: across subnets')
    ? [{ name: 'VXLAN across subnets', vxlanMode: 'CrossSubnet' }]
    : []),
  { name: 'BGP', vxlanMode: 'Never' },
])('packets of running pods, by $name,', ({ vxlanMode }) => {
  let fabric: Fabric;
  let pairs: readonly Pair[];
  let flows: readonly Flow[];
  beforeAll(async () => {
    fabric = await startFabric();
    pairs = await startPods(fabric, vxlanMode);
  });
  afterAll(async () => fabric?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    flows = await startFlows(pairs);
  });

  it('all arrive while agents are killed, stay down and are restarted', async () => {
    for (const node of fabric.nodes) await node.agent().stop('KILL');
    await sleep(WHILE_MS);
    await fabric.startAgents();
    await sleep(WHILE_MS);
    expect(await stopFlows(flows, { atLeast: AT_LEAST })).toEqual([]);
  });

  it('all arrive while agents are stopped and restarted', async () => {
    for (const node of fabric.nodes) await node.agent().stop();
    await sleep(WHILE_MS);
    await fabric.startAgents();
    await sleep(WHILE_MS);
    expect(await stopFlows(flows, { atLeast: AT_LEAST })).toEqual([]);
  });

  it('all arrive while the datastore is killed and restarted, also for agents started meanwhile', async () => {
    await using absence = await takeAwayEtcd(fabric.store, 'is killed');
    await sleep(WHILE_MS);
    const n1 = fabric.node('n1');
    await n1.agent().stop('KILL');
    const agent = await n1.launchAgent();
    await sleep(WHILE_MS);
    await absence.end();
    await agent.ready();
    await sleep(WHILE_MS);
    expect(await stopFlows(flows, { atLeast: AT_LEAST })).toEqual([]);
  });
});

describe('running pods', () => {
  it('are reached again after their routes and links were taken away, also while no agent ran', async () => {
    await using fabric = await startFabric();
    const pairs = await startPods(fabric, 'Always');
    const node = fabric.node('n1');
    const { machine } = node;
    const links = async (): Promise<readonly string[]> =>
      (await machine.host.ip('link')).map(({ ifname }) => String(ifname)).filter((name) => name.startsWith('npl'));
    const flush = async (link: string): Promise<void> => {
      for (const family of ['-4', '-6']) await machine.host.exec('ip', family, 'route', 'flush', 'dev', link);
    };
    const flap = async (link: string): Promise<void> => {
      for (const state of ['down', 'up']) await machine.host.exec('ip', 'link', 'set', 'dev', link, state);
    };
    const down = async (link: string): Promise<unknown> => machine.host.exec('ip', 'link', 'set', 'dev', link, 'down');
    for (const harm of [flush, flap, down]) {
      for (const link of await links()) await harm(link);
      await expectReached(pairs, () => fabric.logs());
    }
    await node.agent().stop();
    for (const link of await links()) await flap(link);
    await fabric.startAgents();
    await expectReached(pairs, () => fabric.logs());
  });
});

describe('packets of running pods, by BGP', () => {
  it('all arrive while BIRD is killed and restarted on one node after the other', async () => {
    await using fabric = await startFabric();
    const pairs = await startPods(fabric, 'Never');
    const flows = await startFlows(pairs);
    for (const node of fabric.nodes) {
      const pid = await birdOf(node);
      expect(pid).toMatch(/^\d+$/);
      await node.machine.exec('kill', '-KILL', pid);
      await until(async () => /^\d+$/.test((await birdOf(node)).replace(pid, '').trim()), 'another BIRD runs');
      await sleep(WHILE_MS);
    }
    expect(await stopFlows(flows, { atLeast: AT_LEAST })).toEqual([]);
  });
});

/** On every node one, each of them reached by the others; and the world by one. */
async function startPods(fabric: Fabric, vxlanMode: string): Promise<readonly Pair[]> {
  await fabric.setPools({ vxlanMode, natOutgoing: true });
  await fabric.startAgents();
  const pods = await fabric.podOnEach();
  if (vxlanMode === 'Never') for (const pod of pods) await fabric.routeTo(pod);
  await expectReached(pairsOf(pods), () => fabric.logs());
  return [...pairsOf(pods), { from: pods[0]!, to: fabric.world }];
}

/** The process id, as seen inside, of the one that runs; a killed one may not be buried yet. */
async function birdOf({ machine }: FabricNode): Promise<string> {
  return (await machine.run(['pgrep', '-x', '--runstates', 'R,S,D', 'bird'])).stdout.trim();
}
