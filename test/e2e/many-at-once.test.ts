import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODE } from '../support/agent.ts';
import { type Json, startNode, type TestNode } from '../support/node.ts';

const MANY = 64;

let node: TestNode;
beforeAll(async () => {
  node = await startNode();
  await node.seedPool('v4', '10.65.0.0/16');
  await node.seedPool('v6', 'fd65::/64');
});
afterAll(async () => {
  await node[Symbol.asyncDispose]();
});

describe(`${String(MANY)} processes at once on one etcd`, () => {
  it('assign no address twice, share the blocks of the node, and leave nothing behind', async () => {
    const conf = node.netconf({ ipam: { type: 'netplug-ipam', assign_ipv6: 'true' } });
    const pods = await Promise.all(Array.from({ length: MANY }, async () => node.pod()));
    const calls = pods.map(({ path }, index) => ({ containerId: `c${String(index)}`, netns: path, conf }));
    const added = await Promise.all(calls.map(async (call) => node.cni('ADD', call)));
    expect(added.filter(({ status }) => status !== 0).map(({ stdout }) => stdout)).toEqual([]);
    const addresses = added.flatMap(({ json }) => json.ips.map(({ address }: Json) => address));
    expect(new Set(addresses).size).toBe(2 * MANY);
    expect(await node.heldAddresses()).toHaveLength(2 * MANY);
    // One block of each family is just enough; under such load an agent claims the next one ahead.
    expect((await node.records('ipam/blocks/')).size).toBeLessThanOrEqual(MODE === 'agent' ? 4 : 2);

    const removed = await Promise.all(calls.map(async (call) => node.cni('DEL', call)));
    expect(removed.filter(({ status }) => status !== 0).map(({ stdout }) => stdout)).toEqual([]);
    expect(await node.heldAddresses()).toEqual([]);
    expect(await node.endpoints()).toEqual([]);
    expect(await node.hostLinks()).toEqual([]);
  });
});
