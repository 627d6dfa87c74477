// The mode of the pools changes while pods talk.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LINGER_MS, OPEN_MS } from '../../src/routing/pool-modes.ts';
import { type Fabric, type FabricPod, POOLS, startFabric } from '../support/fabric.ts';
import { startFlows, stopFlows } from '../support/traffic-flow.ts';
import { pairsOf, expectReached } from '../support/traffic.ts';
import { until } from '../support/until.ts';

/** Until what was replaced is surely gone. */
const OVER_MS = LINGER_MS + OPEN_MS + 4000;

let fabric: Fabric;
let pods: FabricPod[];
beforeAll(async () => {
  fabric = await startFabric();
  await fabric.setPools({ vxlanMode: 'Always', natOutgoing: true });
  await fabric.startAgents();
  pods = await fabric.podOnEach();
  // Otherwise the router would carry what falls through a gap.
  for (const { machine } of fabric.nodes) {
    for (const pool of Object.values(POOLS))
      await machine.exec('ip', 'route', 'add', 'unreachable', pool, 'metric', '9999');
  }
  for (const pod of pods) await fabric.routeTo(pod);
  await expectReached(pairsOf(pods), () => fabric.logs());
});
afterAll(async () => fabric?.[Symbol.asyncDispose]());

/** The links by which pods of the others are reached from n1. */
const waysFromN1 = async (): Promise<string[]> =>
  Promise.all(pods.slice(1).map(async ({ addresses }) => fabric.node('n1').wayTo(addresses.ipv4)));

describe('packets of running pods', () => {
  it('all arrive while the mode changes from VXLAN to CrossSubnet to BGP and back', async () => {
    const flows = await startFlows([...pairsOf(pods), { from: pods[0]!, to: fabric.world }]);
    expect(await waysFromN1()).toEqual(['vxlan.netplug', 'vxlan.netplug']);
    await fabric.setPools({ vxlanMode: 'CrossSubnet', natOutgoing: true });
    await until(async () => (await waysFromN1()).join() === 'eth0,vxlan.netplug', 'neighbours go without VXLAN');
    await sleep(2000);
    await fabric.setPools({ vxlanMode: 'Never', natOutgoing: true });
    await until(async () => (await waysFromN1()).join() === 'eth0,eth0', 'all go without VXLAN');
    await sleep(OVER_MS);
    expect(await waysFromN1()).toEqual(['eth0', 'eth0']);
    await fabric.setPools({ vxlanMode: 'Always', natOutgoing: true });
    await until(async () => (await waysFromN1()).join() === 'vxlan.netplug,vxlan.netplug', 'all go inside VXLAN');
    await sleep(OVER_MS);
    expect(await waysFromN1()).toEqual(['vxlan.netplug', 'vxlan.netplug']);
    expect(await stopFlows(flows, { atLeast: 1000 })).toEqual([]);
  }, 180_000);
});
