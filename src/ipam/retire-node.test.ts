import { preallocate, updateTo } from '../../test/support/block-edits.ts';
import { describe, expect, it } from 'vitest';
import { nodeName, poolOf } from '../../test/support/fixtures.ts';
import { attachmentOf, IpamBench } from '../../test/support/ipam-bench.ts';
import { virtualClock } from '../base/clock.ts';
import { seededRandom } from '../base/random.ts';
import { openMemoryStore, type Operation } from '../datastore/memory/memory-store.ts';
import { blockFaults, type IpBlock } from '../model/ip-block.ts';
import { formatAddress } from '../net/address.ts';
import { addressAt } from '../net/cidr.ts';
import { dryRunRetirement, retireNode, type Retirement } from './retire-node.ts';
import { ensureTunnelAddress } from './tunnel-address.ts';

const SMALL = { blockSize: 30 };
const gone = nodeName('n1');
const PATIENT = { clock: virtualClock(), random: seededRandom(1) };

const retire = async (ipam: IpamBench): Promise<Retirement> => retireNode(ipam.ports(), gone, ipam.signal);
const blocksOf = async (ipam: IpamBench): Promise<IpBlock[]> =>
  (await ipam.ports().store.listBlocks(ipam.signal)).blocks.map(({ value }) => value);
/** Every address that is held, with its node. */
const held = async (ipam: IpamBench): Promise<string[]> =>
  (await blocksOf(ipam)).flatMap(({ cidr, slots }) =>
    [...slots].map(([ordinal, { node }]) => `${node} ${formatAddress(addressAt(cidr, ordinal))}`),
  );

async function putEndpoint(ipam: IpamBench, container: string, node: string): Promise<void> {
  const { store } = ipam.ports();
  const { network, containerId, ifName } = attachmentOf(container);
  const spec = {
    orchestrator: 'cni',
    node,
    network,
    containerID: containerId,
    endpoint: ifName,
    interfaceName: '',
    mac: '0a:00:00:00:00:01',
    ipNetworks: [],
    profiles: [],
    ipam: 'netplug-ipam',
  } as const;
  const metadata = { name: `e-${container}` };
  const endpoint = { apiVersion: 'netplug.io/v3', kind: 'WorkloadEndpoint', metadata, spec } as const;
  expect(await store.commit([{ kind: 'put-endpoint', endpoint }], ipam.signal)).toBe('committed');
}

describe('a node that was removed', () => {
  it('loses its addresses, endpoints and blocks, and other nodes lose none', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24', SMALL));
    for (const container of ['a', 'b', 'c', 'd', 'e']) {
      await ipam.assign(container);
      await putEndpoint(ipam, container, 'n1');
    }
    const others = await ipam.addresses('z', { node: 'n2' });
    await putEndpoint(ipam, 'z', 'n2');
    const { retired } = await retire(ipam);
    expect(retired).toEqual({ addresses: 5, endpoints: 5, returnedBlocks: 2, orphanedBlocks: 0 });
    expect(await held(ipam)).toEqual(others.map((address) => `n2 ${address}`));
    const { endpoints } = await ipam.ports().store.listEndpoints(undefined, ipam.signal);
    expect(endpoints.map(({ value }) => value.metadata.name)).toEqual(['e-z']);
  });

  it('leaves nothing to do for a second run', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24', SMALL));
    await ipam.assign('a');
    await retire(ipam);
    const before = ipam.database.state();
    const nothing = { addresses: 0, endpoints: 0, returnedBlocks: 0, orphanedBlocks: 0 };
    expect(await retire(ipam)).toEqual({ retired: nothing, problems: [] });
    expect(ipam.database.state()).toBe(before);
  });

  it('leaves a block to its borrowers, and the last of them deletes it', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/30', SMALL));
    await ipam.assign('a');
    const borrowed = await ipam.addresses('b', { node: 'n2' });
    expect((await retire(ipam)).retired).toMatchObject({ addresses: 1, returnedBlocks: 0, orphanedBlocks: 1 });
    const [block] = await blocksOf(ipam);
    expect(block?.node).toBeUndefined();
    expect(await held(ipam)).toEqual(borrowed.map((address) => `n2 ${address}`));
    await ipam.release('b', 'n2');
    expect(await blocksOf(ipam)).toEqual([]);
  });

  it('releases what it has borrowed, and the block keeps its owner', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/30', SMALL));
    await ipam.assign('a', { node: 'n2' });
    await ipam.assign('b');
    expect((await retire(ipam)).retired).toMatchObject({ addresses: 1, returnedBlocks: 0, orphanedBlocks: 0 });
    expect((await blocksOf(ipam)).map(({ node }) => node)).toEqual(['n2']);
    expect(await held(ipam)).toEqual(['n2 10.0.0.0']);
  });

  it('deletes a block without owner in which it held the last address', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/30', SMALL));
    await ipam.assign('a', { node: 'n2' });
    await ipam.assign('b');
    await retireNode(ipam.ports(), nodeName('n2'), ipam.signal);
    expect((await retire(ipam)).retired).toMatchObject({ addresses: 1, returnedBlocks: 1 });
    expect(await blocksOf(ipam)).toEqual([]);
  });

  it('loses the pre-allocated addresses of its agent and the requests for them', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/30', SMALL));
    await ipam.assign('a', { node: 'n2' });
    const { store } = ipam.ports();
    const [before] = (await store.listBlocks(ipam.signal)).blocks;
    const withPreallocated = { ...preallocate(before!.value, new Map([[2, 'run#1']])), node: gone };
    const after = { ...withPreallocated, requested: new Set([2]) };
    expect(await store.commit([updateTo(before!, after)], ipam.signal)).toBe('committed');
    await retire(ipam);
    const [block] = await blocksOf(ipam);
    expect(block).toMatchObject({ node: undefined, preallocated: new Map(), requested: new Set() });
    expect(block?.queue).toContain(2);
  });

  it('releases the addresses of its tunnels', async () => {
    const pool = poolOf('v4', '10.0.0.0/30', SMALL);
    const ipam = await IpamBench.with(pool);
    const request = { node: gone, device: 'vxlan.netplug', family: 4, pools: [pool] } as const;
    await ensureTunnelAddress(ipam.ports(), request, { signal: ipam.signal, cleanupSignal: ipam.signal });
    expect((await retire(ipam)).retired).toMatchObject({ addresses: 1, returnedBlocks: 1 });
  });

  it('is reported, and not changed, by a dry run', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24', SMALL));
    await ipam.assign('a');
    const before = ipam.database.state();
    const { retired } = await dryRunRetirement(ipam.ports().store, gone, ipam.signal);
    expect(retired).toMatchObject({ addresses: 1, returnedBlocks: 1 });
    expect(ipam.database.state()).toBe(before);
  });
});

describe('other nodes that write while a node is retired', () => {
  it('keep their addresses, and nothing of the node is left', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/29', SMALL));
    for (const container of ['a', 'b', 'c', 'd', 'e']) await ipam.assign(container);
    const kept = new Set<string>();
    let [turns, commits] = [0, 0];
    // Before each look and each write, another node takes an address of the blocks at stake, or gives one back.
    const pause = async (operation: Operation): Promise<void> => {
      if (operation === 'commit') commits += 1;
      if (turns === 9) return;
      turns += 1;
      if (turns % 3 === 0) {
        const [address] = await ipam.addresses(`w${String(turns - 1)}`, { node: 'n2' });
        await ipam.release(`w${String(turns - 1)}`, 'n2');
        kept.delete(address ?? '');
      } else {
        const [address] = await ipam.addresses(`w${String(turns)}`, { node: 'n2' });
        kept.add(address ?? '');
      }
    };
    const ports = { ...PATIENT, store: openMemoryStore(ipam.database, { pause }) };
    const { retired } = await retireNode(ports, gone, ipam.signal);
    expect(retired.addresses).toBe(5);
    expect(commits).toBeGreaterThan(retired.returnedBlocks + retired.orphanedBlocks);
    expect(kept.size).toBeGreaterThan(0);
    expect((await held(ipam)).sort()).toEqual([...kept].sort().map((address) => `n2 ${address}`));
    for (const block of await blocksOf(ipam)) expect(blockFaults(block)).toEqual([]);
  });

  it('may be doing the same', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24', SMALL));
    for (const container of ['a', 'b', 'c', 'd', 'e']) await ipam.assign(container);
    const both = await Promise.all([retire(ipam), retire(ipam)]);
    expect(both.reduce((sum, { retired }) => sum + retired.addresses, 0)).toBe(5);
    expect(await blocksOf(ipam)).toEqual([]);
  });

  it('get an error that asks to stop the agent when the node itself continues to write', async () => {
    const ipam = await IpamBench.with(poolOf('v4', '10.0.0.0/24', SMALL));
    let turns = 0;
    const pause = async (operation: Operation): Promise<void> => {
      if (operation === 'readNodeView') await ipam.assign(`w${String((turns += 1))}`);
    };
    const ports = { ...PATIENT, store: openMemoryStore(ipam.database, { pause }) };
    await expect(retireNode(ports, gone, ipam.signal)).rejects.toMatchObject({ code: 'store/conflict' });
  });
});
