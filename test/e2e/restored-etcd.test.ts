// An etcd that is restored from a backup knows nothing of the pods that came after the backup.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { backUpEtcd } from '../support/etcd-backup.ts';
import { startNode, type TestNode } from '../support/node.ts';
import { addPods, addressesOf } from '../support/pods.ts';

let node: TestNode;
beforeEach(async () => {
  node = await startNode();
  await node.seedPool('v4', '10.65.0.0/24');
});
afterEach(async () => node[Symbol.asyncDispose]());

describe('an etcd restored from a backup', () => {
  it('assigns no address that a pod holds, and records all of them again', async () => {
    const first = await addPods(node, 'first-', 2);
    await node.settled();
    const backup = await backUpEtcd(node);
    const before = [...first, ...(await addPods(node, 'before-', 6))];
    await node.settled();
    await backup.restore();
    const pods = [...before, ...(await addPods(node, 'after-', 6))];
    expect(new Set(addressesOf(pods)).size).toBe(14);
    await node.settled();
    expect([...(await node.heldAddresses())].sort()).toEqual(addressesOf(pods));
    const [asking, ...others] = pods;
    for (const { address } of others) await asking?.netns.exec('ping', '-c1', '-W2', address);
    for (let index = 0; index < 6; index += 1)
      expect((await node.cni('DEL', { containerId: `before-${String(index)}`, conf: node.netconf() })).status).toBe(0);
    await node.settled();
    expect(await node.heldAddresses()).toHaveLength(8);
  });
});
