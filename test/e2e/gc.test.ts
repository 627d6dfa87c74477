// GC with the real plugin: what a runtime does not list is released, unless a living namespace uses it.
import { writeFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { MODE } from '../support/agent.ts';
import type { TestNetns } from '../support/netns.ts';
import { AS_OTHER_NODE, type CniAnswer, type Json, startNode, type TestNode } from '../support/node.ts';
import { recordText } from '../support/runtime-record.ts';
import { until } from '../support/until.ts';
import { NETPLUGCTL } from '../support/built.ts';

const VALID = 'cni.dev/valid-attachments';
const dual = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };

let node: TestNode;
let count = 0;
beforeAll(async () => {
  node = await startNode();
  await node.seedPool('v4', '10.65.0.0/16');
  await node.seedPool('v6', 'fd65::/64');
});
afterAll(async () => node[Symbol.asyncDispose]());
afterEach(async () => releaseAll());

async function releaseAll(): Promise<void> {
  await node.endPods();
  for (const name of ['k8s-pod-network', 'other-net']) expect((await collect([], { name })).status).toBe(0);
  expect((await collect([], { nodename: 'node-b' }, AS_OTHER_NODE)).status).toBe(0);
  expect([await node.hostLinks(), await node.heldAddresses(), await node.endpoints()]).toEqual([[], [], []]);
}

interface Attached {
  readonly container: string;
  readonly pod: TestNetns;
  readonly addresses: readonly string[];
}

async function attach(more: object = {}, env = {}): Promise<Attached> {
  const pod = await node.pod();
  const container = `c${String((count += 1))}`;
  const conf = node.netconf({ ipam: dual, ...more });
  const { status, json } = await node.cni('ADD', { containerId: container, netns: pod.path, conf, env });
  expect(status).toBe(0);
  return { container, pod, addresses: json.ips.map(({ address }: Json) => address.split('/')[0]) };
}

/** Calls GC with the containers of the list, or without a list. */
async function collect(listed: readonly string[] | undefined, more: object = {}, env = {}): Promise<CniAnswer> {
  const list = listed === undefined ? {} : { [VALID]: listed.map((containerID) => ({ containerID, ifname: 'eth0' })) };
  return node.cni('GC', { conf: node.netconf({ ipam: dual, ...more, ...list }), env });
}

async function holders(): Promise<readonly string[]> {
  return (await node.endpoints()).map(({ spec }) => spec.containerID as string).sort();
}

describe('GC', () => {
  it('releases what is not listed and has ended, on this node and network only, and without a list nothing', async () => {
    const [kept, ended] = [await attach(), await attach()];
    const elsewhere = await attach({ name: 'other-net' });
    // An ADD first records addresses that links of the kernel use and the datastore has lost. The two nodes share a kernel.
    await node.settled();
    const remote = await attach({ nodename: 'node-b' }, AS_OTHER_NODE);
    await ended.pod[Symbol.asyncDispose]();
    const all = [kept, ended, elsewhere, remote].map(({ container }) => container);

    expect((await collect(undefined)).status).toBe(0);
    expect(await holders()).toEqual(all.toSorted());

    expect((await collect([kept.container])).status).toBe(0);
    expect(await holders()).toEqual(all.filter((each) => each !== ended.container).toSorted());
    expect(await node.heldAddresses()).toHaveLength(6);
  });

  it('with an empty list keeps pods that run, which answer on, and names them', async () => {
    const [one, two] = [await attach(), await attach()];
    const answer = await collect([]);
    expect(answer).toMatchObject({ status: 0, stdout: '', stderr: expect.stringContaining('attachments kept') });
    for (const { container } of [one, two]) expect(answer.stderr).toContain(container);
    expect(await holders()).toEqual([one.container, two.container].toSorted());
    for (const address of two.addresses) expect(await one.pod.ping(address)).toBe(true);
    // Of one that was kept, DEL releases everything as always.
    const conf = node.netconf({ ipam: dual });
    expect(await node.cni('DEL', { containerId: one.container, conf })).toMatchObject({ status: 0 });
    expect(await holders()).toEqual([two.container]);
    // The namespace of the other one ends, under whatever path it was known.
    await two.pod[Symbol.asyncDispose]();
    expect((await collect([])).stderr).not.toContain('attachments kept');
    expect([await holders(), await node.heldAddresses()]).toEqual([[], []]);
  });

  it.runIf(MODE === 'agent')('has what it kept shown by node status', async () => {
    const { container } = await attach();
    await collect([]);
    const shown = await node.run([NETPLUGCTL, 'node', 'status', '--socket', node.socket]);
    expect(shown.stdout).toMatch(new RegExp(`called GC .*${container}.*\n.*disableGC`));
    await collect([container]);
    const later = await node.run([NETPLUGCTL, 'node', 'status', '--socket', node.socket]);
    expect(later.stdout).not.toContain('called GC');
  });

  it('keeps a pod whose namespace is no longer where the runtime had it, but alive', async () => {
    const { container, pod } = await attach();
    const holder = await node.start(['nsenter', `--net=${pod.path}`, 'sleep', 'infinity']);
    await pod[Symbol.asyncDispose]();
    expect((await collect([])).stderr).toContain('attachments kept');
    expect(await holders()).toEqual([container]);
    await holder.stop();
    await until(async () => (await node.hostLinks()).length === 0, 'the link has gone with the namespace');
    expect((await collect([])).status).toBe(0);
    expect(await holders()).toEqual([]);
  });

  it('releases nothing where the list of the network sets disableGC', async () => {
    const { container, pod } = await attach();
    await pod[Symbol.asyncDispose]();
    const list = { cniVersion: '1.1.0', name: 'k8s-pod-network', disableGC: true, plugins: [{ type: 'netplug' }] };
    await node.exec('mkdir', '-p', '/etc/cni/net.d');
    await writeFile(`${node.dir}/list`, JSON.stringify(list));
    await node.exec('cp', `${node.dir}/list`, '/etc/cni/net.d/10-netplug.conflist');
    expect(await collect([])).toMatchObject({ status: 0, stdout: '', stderr: expect.stringContaining('disableGC') });
    expect(await holders()).toEqual([container]);
    await node.exec('rm', '/etc/cni/net.d/10-netplug.conflist');
    expect((await collect([])).status).toBe(0);
    expect(await holders()).toEqual([]);
  });
});

describe('a running pod whose interface is gone', () => {
  const named = /pod "shop\/web" has no interface "eth0", although its network namespace "[^"]+" exists/;
  const say = async (...words: string[]): Promise<string> => {
    const env = { KV_ENDPOINTS: 'http://127.0.0.1:2379', NODENAME: node.name, NETPLUG_SOCKET: node.socket };
    return (await node.run([NETPLUGCTL, ...words], { env })).stdout;
  };
  const attachRecorded = async (): Promise<Attached> => {
    const attached = await attach();
    const record = recordText({ containerId: attached.container, netns: attached.pod.path });
    await writeFile(`${node.dir}/record`, record);
    await node.exec('mkdir', '-p', '/var/lib/cni/results');
    await node.exec('cp', `${node.dir}/record`, `/var/lib/cni/results/k8s-pod-network-${attached.container}-eth0`);
    return attached;
  };

  it('is named by ipam check and doctor, and keeps its addresses', async () => {
    const { pod, addresses } = await attachRecorded();
    expect(await say('ipam', 'check', '--grace', '0')).toContain('nothing wrong is left');
    await pod.exec('ip', 'link', 'delete', 'dev', 'eth0');
    expect(await say('ipam', 'check', '--grace', '0', '--fix')).toMatch(named);
    expect(await say('doctor', '--node')).toMatch(named);
    expect((await node.heldAddresses()).toSorted()).toEqual(addresses.toSorted());
    await pod[Symbol.asyncDispose]();
    expect(await say('ipam', 'check', '--grace', '0')).not.toMatch(named);
  });
});
