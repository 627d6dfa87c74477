import { expect, it } from 'vitest';
import { podFactsOf } from '../../test/support/memory-orch.ts';
import { memoryNode, type MemoryNode, NETNS } from '../../test/support/memory-node.ts';
import type { Facts } from '../base/errors.ts';
import { silentLog } from '../base/log.ts';
import { formatAddress } from '../net/address.ts';
import { type Isolation, type LeftBehind, noIsolation, type PodIsolation } from './pod-isolation.ts';

const POD = { CNI_ARGS: 'K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web' };
const CLOSED: Isolation = { state: 'closed', reason: 'no agent is running' };

/** Records what is taken out of the policies of the kernel. */
class Withdrawn {
  readonly interfaces: string[] = [];
  readonly addresses: string[] = [];
  readonly flowsOf: string[] = [];

  isolation(state: Isolation, isReleased: boolean): PodIsolation {
    return {
      ...noIsolation('none'),
      isOn: true,
      isolate: async () => Promise.resolve(state),
      release: async () => Promise.resolve(isReleased),
      collect: async () => Promise.resolve(isReleased),
      withdraw: async (left) => Promise.resolve(this.#take(left)),
    };
  }

  #take({ interfaces, addresses, flowsOf }: LeftBehind): void {
    this.interfaces.push(...interfaces);
    this.addresses.push(...addresses.map(formatAddress));
    this.flowsOf.push(...flowsOf.map(formatAddress));
  }
}

async function nodeWithPod(): Promise<{ node: MemoryNode; links: readonly string[]; addresses: readonly string[] }> {
  const node = await memoryNode();
  expect(await node.call('ADD', { env: POD })).toMatchObject({ status: 0 });
  const links = node.kernel.listHostLinks().map(({ name }) => name);
  const addresses = (await node.kernel.listPodAddresses()).map(({ address }) => formatAddress(address));
  expect([links.length, addresses.length]).toEqual([1, 1]);
  return { node, links, addresses };
}

it('takes out of the kernel what an earlier pod left there when the policies of a new one are not in force', async () => {
  for (const { state, isTaken } of [
    { state: CLOSED, isTaken: true },
    { state: { state: 'in force' } as const, isTaken: false },
  ]) {
    const node = await memoryNode();
    const withdrawn = new Withdrawn();
    await node.call('ADD', { env: POD, isolation: withdrawn.isolation(state, true) });
    const links = node.kernel.listHostLinks().map(({ name }) => name);
    const addresses = (await node.kernel.listPodAddresses()).map(({ address }) => formatAddress(address));
    expect(withdrawn.interfaces).toEqual(isTaken ? links : []);
    expect(withdrawn.addresses).toEqual([]);
    expect(withdrawn.flowsOf).toEqual(isTaken ? addresses : []);
  }
});

it('says that a pod is not closed when the kernel keeps what an earlier pod left', async () => {
  const node = await memoryNode();
  const isolation: PodIsolation = {
    ...new Withdrawn().isolation(CLOSED, true),
    withdraw: async () => Promise.reject(new Error('the kernel says no')),
  };
  const warnings: unknown[] = [];
  const log = { ...silentLog, warning: (event: string, facts: Facts = {}) => void warnings.push({ event, ...facts }) };
  const conf = { policy: { type: 'orch' }, orch: { orch_api_root: 'http://127.0.0.1:1' } };
  const pods = [podFactsOf('shop', 'web')];
  expect(await node.call('ADD', { env: POD, isolation, log, conf, pods })).toMatchObject({ status: 0 });
  expect(warnings).toMatchObject([
    {
      event: 'policies not enforced',
      reason: 'no agent is running, and the pod cannot be closed: the kernel says no',
    },
  ]);
});

it('takes a removed pod out of the kernel unless the process that knows it does', async () => {
  for (const isReleased of [false, true]) {
    const { node, links, addresses } = await nodeWithPod();
    const withdrawn = new Withdrawn();
    expect(await node.call('DEL', { env: POD, isolation: withdrawn.isolation(CLOSED, isReleased) })).toMatchObject({
      status: 0,
    });
    expect(withdrawn.interfaces).toEqual(isReleased ? [] : links);
    expect(withdrawn.addresses).toEqual(isReleased ? [] : addresses);
    expect(withdrawn.flowsOf).toEqual(withdrawn.addresses);
  }
});

it('leaves the policies of a newer sandbox of the pod when the older one is removed', async () => {
  const { node } = await nodeWithPod();
  const withdrawn = new Withdrawn();
  const isolation = withdrawn.isolation(CLOSED, false);
  expect(await node.call('DEL', { env: { ...POD, CNI_CONTAINERID: 'older' }, isolation })).toMatchObject({ status: 0 });
  expect([withdrawn.interfaces, withdrawn.addresses]).toEqual([[], []]);
});

it('takes the pods that garbage collection removes out of the kernel', async () => {
  const { node, links, addresses } = await nodeWithPod();
  const withdrawn = new Withdrawn();
  const conf = { cniVersion: '1.1.0', 'cni.dev/valid-attachments': [] };
  node.kernel.endNetns(NETNS);
  expect(await node.call('GC', { conf, isolation: withdrawn.isolation(CLOSED, false) })).toMatchObject({ status: 0 });
  expect(withdrawn.interfaces).toEqual(links);
  expect(withdrawn.addresses).toEqual(addresses);
});
