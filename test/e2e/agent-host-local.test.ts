// Addresses that host-local holds for pods that a power cut has ended: without DEL, and with all that is on the disk.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startAgent } from '../support/agent.ts';
import { NETPLUGCTL } from '../support/built.ts';
import type { TestNetns } from '../support/netns.ts';
import { type CniAnswer, startNode, type TestNode, until } from '../support/node.ts';

const NETWORK = 'k8s-pod-network';
const RANGES = [[{ subnet: '10.90.7.0/29' }]];
const ALL = ['10.90.7.2', '10.90.7.3', '10.90.7.4', '10.90.7.5', '10.90.7.6'];
const NO_NETWORK = { env: { NETPLUG_NETWORKING: 'off' } };

let node: TestNode;
let conf: Record<string, unknown>;
const pods: TestNetns[] = [];
beforeAll(async () => {
  node = await startNode({ mode: 'standalone' });
  conf = node.netconf({ ipam: { type: 'host-local', ranges: RANGES } });
  const { cniVersion, name, ...plugin } = conf;
  const list = { cniVersion, name, plugins: [plugin, { type: 'portmap' }] };
  const path = '/etc/cni/net.d/10-netplug.conflist';
  await node.run(['tee', path], { stdin: JSON.stringify(list) });
  // A network of another plugin, whose files are older still.
  await node.exec('mkdir', '-p', '/var/lib/cni/networks/others');
  await node.run(['tee', '/var/lib/cni/networks/others/10.90.7.2'], { stdin: 'gone\r\neth0' });
});
afterAll(async () => node?.[Symbol.asyncDispose]());

describe('after a power cut, host-local', () => {
  it('has its addresses again once the agent has started, and a full range is not ready until then', async () => {
    const first = await startAgent(node, NO_NETWORK);
    await addAll('before');
    expect(await status()).toMatchObject({
      status: 1,
      json: { code: 50, msg: expect.stringContaining('10.90.7.1-10.90.7.6') },
    });
    const sixth = await add('sixth', await newPod());
    expect(sixth).toMatchObject({ status: 1, json: { code: 11, details: expect.stringContaining('ipam/exhausted') } });
    await first.stop('KILL');
    await cutPower();
    // What host-local wrote last was not on the disk yet.
    await node.exec('sh', '-c', `cd /var/lib/cni/networks/${NETWORK}; : >10.90.7.4; touch -d 2020-01-01 10.90.7.4`);
    expect(await reservations()).toEqual(ALL);

    await using agent = await startAgent(node, NO_NETWORK);
    await until(
      async () => (await status()).status === 0,
      () => `an address is free; the agent says:\n${agent.log()}`,
    );
    await until(async () => (await reservations()).length === 0, 'every address is free');
    await addAll('after');
    // Endpoints are written behind the answer.
    const recorded = async (): Promise<unknown[]> =>
      (await node.endpoints()).map(({ spec }) => spec.containerID).toSorted();
    await until(async () => (await recorded()).length === containers('after').length, 'all endpoints are recorded');
    expect(await recorded()).toEqual(containers('after'));
    expect(await readdir(join(networks(), 'others'))).toEqual(['10.90.7.2']);
  });

  it('has them again after netplugctl ipam check --fix where no agent runs, with their endpoints', async () => {
    await cutPower();
    const check = async (
      ...flags: string[]
    ): Promise<{ readonly status: number | undefined; readonly stdout: string }> =>
      node.run([NETPLUGCTL, 'ipam', 'check', ...flags], {
        env: { KV_ENDPOINTS: 'http://127.0.0.1:2379', NETPLUG_SOCKET: node.socket },
      });
    const found = await check();
    expect(found.status).toBe(1);
    for (const address of ALL)
      expect(found.stdout).toContain(`found: address ${address}: host-local holds it in network`);
    const fixed = await check('--fix');
    expect(fixed).toMatchObject({ status: 0 });
    expect([await reservations(), await node.endpoints()]).toEqual([[], []]);
    expect((await check()).stdout).toContain('nothing wrong is left');
  });
});

/** Removes what is in memory, and lets hours pass for what is on the disk, or more for files of which netplug has no record. */
async function cutPower(): Promise<void> {
  for (const pod of pods.splice(0)) await pod[Symbol.asyncDispose]();
  await until(async () => (await node.hostLinks()).length === 0, 'no pod has an interface');
  await node.exec('find', '/var/lib/cni/networks', '-type', 'f', '-exec', 'touch', '-d', '2020-01-01', '{}', '+');
  const at = new Date(Date.now() - 3 * 3_600_000).toISOString();
  await node.exec('sh', '-c', `sed -i 's/"at":"[^"]*"/"at":"${at}"/' /var/lib/netplug/attachments/*.json`);
}

async function addAll(name: string): Promise<void> {
  for (const containerId of containers(name))
    expect(await add(containerId, await newPod())).toMatchObject({ status: 0 });
  expect(await reservations()).toEqual(ALL);
}

function containers(name: string): readonly string[] {
  return ALL.map((_, at) => `${name}-${String(at)}`);
}

async function newPod(): Promise<TestNetns> {
  const pod = await node.pod();
  pods.push(pod);
  return pod;
}

async function add(containerId: string, pod: TestNetns): Promise<CniAnswer> {
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${containerId}`;
  return node.cni('ADD', { containerId, netns: pod.path, args, conf });
}

async function status(): Promise<CniAnswer> {
  return node.cni('STATUS', { conf, ifName: '' });
}

function networks(): string {
  return join(node.dir, 'var/lib/cni/networks');
}

async function reservations(): Promise<readonly string[]> {
  return (await readdir(join(networks(), NETWORK))).filter((name) => /^[\d.]+$/.test(name)).sort();
}
