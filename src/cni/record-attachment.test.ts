import { describe, expect, it } from 'vitest';
import { type MemoryNode, memoryNode, NETNS } from '../../test/support/memory-node.ts';
import { podFactsOf } from '../../test/support/memory-orch.ts';
import type { AttachmentRecord } from '../model/attachment-record.ts';
import { formatAddress } from '../net/address.ts';
import type { CallOutcome } from './run-plugin.ts';

const ORCH = { policy: { type: 'orch' }, orch: { orch_api_root: 'http://127.0.0.1:1' } };
const ON = { ...ORCH, feature_control: { floating_ips: true, ip_addrs_no_ipam: true } };
const FLOATING = { 'cni.netplug/floatingIPs': '["192.0.2.1"]' };
const UNMANAGED = { 'cni.netplug/ipAddrsNoIpam': '["10.99.0.7"]' };

interface Asked {
  readonly annotations?: Record<string, string>;
  readonly conf?: object;
  readonly container?: string;
}

async function call(node: MemoryNode, verb: string, asked: Asked = {}): Promise<CallOutcome> {
  const { annotations = {}, conf = ON, container = 'c1' } = asked;
  const env = { CNI_CONTAINERID: container };
  return node.call(verb, { conf, env, pods: [podFactsOf('shop', 'web', { annotations })] });
}

async function recordsOf(node: MemoryNode): Promise<readonly AttachmentRecord[]> {
  return (await node.attachments.list()).records;
}

describe('the record of an attachment', () => {
  it('is not written for a pod without annotations', async () => {
    const node = await memoryNode();
    expect(await call(node, 'ADD')).toMatchObject({ status: 0 });
    expect(await recordsOf(node)).toEqual([]);
  });

  it.each([
    ['a second interface of a pod', { CNI_IFNAME: 'net1' }, 'shop/web'],
    ['a container without a pod', { CNI_ARGS: '' }, undefined],
  ])('has the endpoint of %s on the API, which has none, until DEL', async (_, more, pod) => {
    const node = await memoryNode();
    const env = { CNI_CONTAINERID: 'c1', ...more };
    const conf = { datastore_type: 'orch', orch: { orch_api_root: 'http://127.0.0.1:1' } };
    expect(await node.call('ADD', { conf, env })).toMatchObject({ status: 0 });
    const [record] = await recordsOf(node);
    expect(record).toMatchObject({ pod, addressManager: 'netplug-ipam', endpoint: { spec: { containerID: 'c1' } } });
    expect(await node.call('DEL', { conf, env })).toMatchObject({ status: 0 });
    expect(await recordsOf(node)).toEqual([]);
    expect(await node.call('ADD', { env })).toMatchObject({ status: 0 });
    expect(await recordsOf(node)).toEqual([]);
  });

  it('contains floating IPs and the feature switches that allowed them, until DEL', async () => {
    const node = await memoryNode();
    expect(await call(node, 'ADD', { annotations: FLOATING })).toMatchObject({ status: 0 });
    const [record] = await recordsOf(node);
    expect(record).toMatchObject({ pod: 'shop/web', switches: ['floating_ips', 'ip_addrs_no_ipam'] });
    expect(record?.floating.map(({ external }) => formatAddress(external))).toEqual(['192.0.2.1']);
    expect(record?.floating[0]?.internal).toEqual(record?.addresses[0]);
    expect(await call(node, 'DEL')).toMatchObject({ status: 0 });
    expect(await recordsOf(node)).toEqual([]);
  });

  it.each([
    ['floating IPs', FLOATING],
    ['addresses without an address manager', UNMANAGED],
  ])('is not written for %s while the feature switch is off', async (_, annotations) => {
    const node = await memoryNode();
    expect(await call(node, 'ADD', { annotations, conf: ORCH })).toMatchObject({
      record: { failure: { code: 'annotation/invalid' } },
    });
    expect(await recordsOf(node)).toEqual([]);
  });

  it('is removed when the link cannot be created', async () => {
    const node = await memoryNode();
    node.kernel.failAt('create-link');
    expect(await call(node, 'ADD', { annotations: FLOATING })).toMatchObject({ status: 1 });
    expect(await recordsOf(node)).toEqual([]);
  });

  it('keeps its timestamp when ADD is repeated, so that its floating IPs keep their precedence', async () => {
    const node = await memoryNode();
    await call(node, 'ADD', { annotations: FLOATING });
    const [before] = await recordsOf(node);
    await node.clock.sleep(5000, new AbortController().signal);
    await call(node, 'ADD', { annotations: FLOATING });
    expect(await recordsOf(node)).toEqual([before]);
  });

  it('is removed by GC for attachments of the network that the runtime does not list', async () => {
    const node = await memoryNode();
    await call(node, 'ADD', { annotations: UNMANAGED });
    const [record] = await recordsOf(node);
    const other = { ...record!, attachment: { ...record!.attachment, network: 'other' } };
    await node.attachments.put(other);
    const kept = [{ containerID: 'c1', ifname: 'eth0' }];
    await call(node, 'GC', { conf: { ...ON, 'cni.dev/valid-attachments': kept } });
    expect(await recordsOf(node)).toHaveLength(2);
    node.kernel.endNetns(NETNS);
    await call(node, 'GC', { conf: { ...ON, 'cni.dev/valid-attachments': [] } });
    expect(await recordsOf(node)).toEqual([other]);
  });

  it('makes CHECK skip the address manager when it names none, whatever the endpoint contains', async () => {
    const node = await memoryNode();
    const added = await call(node, 'ADD', { annotations: UNMANAGED });
    const conf = { ...ON, prevResult: JSON.parse(added.stdout) as object };
    expect(await call(node, 'CHECK', { conf })).toMatchObject({ status: 0 });
    const [record] = await recordsOf(node);
    await node.attachments.remove(record!.attachment);
    expect(await call(node, 'CHECK', { conf })).toMatchObject({ record: { failure: { code: 'check/mismatch' } } });
  });
});
