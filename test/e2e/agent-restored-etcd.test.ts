// An etcd that is restored from a backup knows nothing of the pods that came after the backup.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { backUpEtcd } from '../support/etcd-backup.ts';
import { startNode, type TestNode, until } from '../support/node.ts';
import { addPods, addressesOf } from '../support/pods.ts';

let node: TestNode;
beforeEach(async () => {
  node = await startNode();
  await node.seedPool('v4', '10.65.0.0/24');
});
afterEach(async () => node[Symbol.asyncDispose]());

describe('blocks deleted while an agent runs', () => {
  it('are recreated within seconds, with every address that a pod holds', async () => {
    const pods = await addPods(node, 'pod-', 6);
    await node.settled();
    await node.exec('etcdctl', '--endpoints=http://127.0.0.1:2379', 'del', '--prefix', '/netplug/v3/ipam');
    await until(async () => (await node.heldAddresses()).length === 6, 'the agent has recorded them again');
    expect([...(await node.heldAddresses())].sort()).toEqual(addressesOf(pods));
    const more = await addPods(node, 'more-', 6);
    expect(new Set(addressesOf([...pods, ...more])).size).toBe(12);
  });
});

describe('an etcd restored from a backup', () => {
  it('under 200 pods assigns none of their addresses again', async () => {
    const backup = await backUpEtcd(node);
    const before = await addPods(node, 'before-', 200);
    await node.settled();
    await backup.restore();
    const pods = [...before, ...(await addPods(node, 'after-', 40))];
    expect(new Set(addressesOf(pods)).size).toBe(240);
    await node.settled();
    expect([...(await node.heldAddresses())].sort()).toEqual(addressesOf(pods));
  }, 240_000);
});
