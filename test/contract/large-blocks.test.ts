// Blocks that are full are large records: a write that changes many of them may be more than etcd takes.
import { takeSlot, updateTo } from '../support/block-edits.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { release } from '../../src/ipam/release.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../src/model/ip-block.ts';
import { handleOf, type NodeName } from '../../src/model/names.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { residentOn, World } from '../support/resident-world.ts';
import { until } from '../support/until.ts';

const BLOCKS = 16;
const [BORROWER, OWNER] = [nodeName('node-1.example.com'), nodeName('node-2.example.com')];
const signal = new AbortController().signal;

function allocationOf(node: NodeName, name: string): Allocation {
  // As containerd and the kubelet name things.
  const attachment = { network: 'k8s-pod-network', containerId: name.padEnd(64, '0'), ifName: 'eth0' };
  return {
    id: crypto.randomUUID(),
    node,
    ...attachment,
    handle: handleOf(attachment),
    namespace: 'payments-production',
    pod: `payment-gateway-${name}-7d9c5b8f4-x2x7k`,
    podUid: crypto.randomUUID(),
    at: '2026-01-01T00:00:00.000Z',
    chosenBy: 'node-selector',
    considered: ['default-ipv4-ippool: chosen'],
  };
}

describe('a node that borrows from many full blocks', () => {
  let etcd: Etcd;
  let store: Store;
  let world: World;
  beforeAll(async () => {
    etcd = await startEtcd();
    store = open();
    world = new World();
    await store.createResource(poolOf('v4', '10.0.0.0/16', { blockSize: 24 }), signal);
  });
  afterAll(async () => {
    await world.end();
    await store[Symbol.asyncDispose]();
    await etcd[Symbol.asyncDispose]();
  });

  const open = (): Store =>
    openKvStore({
      endpoints: { from: 'list', urls: [etcd.url] },
      keyFile: undefined,
      certFile: undefined,
      caCertFile: undefined,
    });
  const borrowed = async (): Promise<number> => (await store.readNodeView(BORROWER, undefined, signal)).borrowed.length;
  const borrowFromAll = async (): Promise<void> => {
    const [pool] = (await store.readNodeView(BORROWER, undefined, signal)).pools;
    for (let index = 0; index < BLOCKS; index += 1) {
      const cidr = parseCidr(`10.0.${String(index)}.0/24`);
      const [before] = await store.getBlocks([cidr], signal);
      let block: IpBlock = before?.value ?? emptyBlock(cidr, OWNER);
      for (const ordinal of block.queue) {
        const node = ordinal === 1 ? BORROWER : OWNER;
        block = takeSlot(block, ordinal, allocationOf(node, `${String(index)}-${String(ordinal)}`));
      }
      await store.commit(
        [before === undefined ? { kind: 'create-block', block, pool } : updateTo(before, block)],
        signal,
      );
    }
    expect(await borrowed()).toBe(BLOCKS);
  };

  it('releases everything when the plugin runs without an agent', async () => {
    await borrowFromAll();
    const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
    expect(await release(ports, { node: BORROWER, which: () => true }, signal)).toHaveLength(BLOCKS);
    expect(await borrowed()).toBe(0);
  });

  it('releases everything through its agent, and continues to assign', async () => {
    await borrowFromAll();
    const agent = await residentOn(world, { inner: open(), name: BORROWER });
    await until(() => agent.node.state.isReady, 'the agent is ready');
    const ports = { store: agent.store, clock: systemClock, random: systemRandom, log: silentLog };
    expect(await release(ports, { node: BORROWER, which: () => true }, signal)).toHaveLength(BLOCKS);
    await until(async () => (await borrowed()) === 0, 'everything is given back');
    expect(await agent.add('next')).toHaveLength(1);
    await agent.node.drain(signal);
  });
});
