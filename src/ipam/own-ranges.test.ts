import { describe, expect, it } from 'vitest';
import { nodeName, poolOf } from '../../test/support/fixtures.ts';
import { IpamBench, requestOf } from '../../test/support/ipam-bench.ts';
import { memoryNode } from '../../test/support/memory-node.ts';
import { emptyBlock } from '../model/ip-block.ts';
import { overlapStatus } from '../model/ip-pool-status.ts';
import type { UsedRange } from '../model/used-range.ts';
import { parseCidr } from '../net/cidr.ts';
import { assign, type IpamPorts } from './assign.ts';
import { NodeCache } from './node/node-cache.ts';
import { ensureTunnelAddress } from './tunnel-address.ts';

const POOLS = [
  poolOf('nodes', '172.31.0.0/24', { blockSize: 26, vxlanMode: 'Always' }),
  poolOf('nodes6', 'fd00:31::/64'),
];
const OWN: readonly UsedRange[] = ['172.31.0.64/26', 'fd00:31::/120'].map((text) => ({
  cidr: parseCidr(text),
  what: 'the network of interface "eth0"',
}));

async function benchOn(own: readonly UsedRange[]): Promise<{ readonly ipam: IpamBench; readonly ports: IpamPorts }> {
  const ipam = await IpamBench.with(...POOLS);
  return { ipam, ports: { ...ipam.ports(), ownRanges: () => own } };
}

/** What the controllers write into the status of a pool, also when this node has nothing in it. */
const MARK = overlapStatus('172.31.0.0/16, the network of node "b"', '2026-01-01T00:00:00Z');

const CREATE = 'Create a pool in a range that nothing else uses';

describe('a pool that the controllers have marked', () => {
  it.each([
    ['by name', { pools: ['nodes'] }, 'ipam/pool-unusable', 'Cannot use pool "nodes" for an IPv4 address', CREATE],
    [
      'by address',
      { ip: '172.31.0.2' },
      'ipam/address-not-in-pool',
      'it lies in pool "nodes"',
      'Ask for an address inside one of the pools',
    ],
    ['by its selector', {}, 'ipam/exhausted', 'pool "nodes" 172.31.0.0/24', CREATE],
  ] as const)(
    'gives no address %s, says what it overlaps and what to do, and no block of it is claimed',
    async (...row) => {
      const [, ask, code, names, todo] = row;
      const ipam = await IpamBench.with(...POOLS);
      await ipam.mark('nodes', MARK);
      const refusal = await ipam.assign('c1', ask).catch((cause: unknown) => cause);
      expect(refusal).toMatchObject({
        code,
        message: expect.stringContaining(
          'it overlaps 172.31.0.0/16, the network of node "b", as the controllers have found',
        ),
      });
      expect(refusal).toMatchObject({ message: expect.stringContaining(names) });
      expect(refusal).toMatchObject({ hint: expect.stringContaining(todo) });
      expect(await ipam.ports().store.listClaims([parseCidr('172.31.0.0/24')], ipam.signal)).toEqual([]);
    },
  );

  it('keeps addresses that are held, also the one of a tunnel, and gives others as soon as the mark is gone', async () => {
    const ipam = await IpamBench.with(...POOLS);
    const limits = { signal: ipam.signal, cleanupSignal: ipam.signal };
    const tunnel = { node: nodeName('n1'), device: 'vxlan.netplug', family: 4, pools: POOLS } as const;
    const held = await ipam.addresses('c1');
    const end = await ensureTunnelAddress(ipam.ports(), tunnel, limits);
    await ipam.mark('nodes', MARK);
    expect(await ipam.addresses('c1')).toEqual(held);
    expect(await ensureTunnelAddress(ipam.ports(), tunnel, limits)).toEqual(end);
    expect(await ensureTunnelAddress(ipam.ports(), { ...tunnel, node: nodeName('n2') }, limits)).toBeUndefined();
    await ipam.mark('nodes', undefined);
    expect(await ensureTunnelAddress(ipam.ports(), { ...tunnel, node: nodeName('n2') }, limits)).toBeDefined();
  });

  it('is closed for the agent, and gets no warm pool', async () => {
    const ipam = await IpamBench.with(...POOLS);
    await ipam.mark('nodes', MARK);
    const cache = new NodeCache(nodeName('n1'));
    const view = await ipam.ports().store.readNodeView(nodeName('n1'), undefined, ipam.signal);
    cache.apply({ kind: 'all', view, endpoints: [] });
    expect(cache.pools.map(({ name, closed }) => [name, closed !== undefined])).toEqual([
      ['nodes', true],
      ['nodes6', false],
    ]);
  });
});

describe('a pool that overlaps a network of an interface of the node', () => {
  it.each([
    [
      'by name',
      { pools: ['nodes'] },
      'ipam/pool-unusable',
      'it overlaps 172.31.0.64/26, the network of interface "eth0"',
    ],
    ['by address', { ip: '172.31.0.2' }, 'ipam/address-not-in-pool', 'it overlaps 172.31.0.64/26, the network of'],
    ['by its selector', {}, 'ipam/exhausted', '172.31.0.0/24: it overlaps 172.31.0.64/26, the network of'],
    [
      'by its selector for IPv6',
      { families: '6' },
      'ipam/exhausted',
      'fd00:31::/64: it overlaps fd00:31::/120, the network of',
    ],
  ] as const)('gives no address %s, and no block of it is claimed', async (_how, ask, code, message) => {
    const { ipam, ports } = await benchOn(OWN);
    const limits = { signal: ipam.signal, cleanupSignal: ipam.signal };
    const refused = expect.stringContaining(message);
    await expect(assign(ports, requestOf('c1', ask), limits)).rejects.toMatchObject({ code, message: refused });
    expect(await ipam.ports().store.listClaims([], ipam.signal)).toEqual([]);
  });

  it('keeps the address of an attachment that has one, and gives no tunnel address', async () => {
    const { ipam, ports } = await benchOn(OWN);
    const limits = { signal: ipam.signal, cleanupSignal: ipam.signal };
    const [before] = await ipam.addresses('c1');
    const [after] = await assign(ports, requestOf('c1', {}), limits);
    expect([after?.isNew, after?.address]).toEqual([false, (await ipam.assign('c1'))[0]?.address]);
    expect(before).toMatch(/^172\.31\.0\./);
    const tunnel = { node: nodeName('n1'), device: 'vxlan.netplug', family: 4, pools: POOLS } as const;
    expect(await ensureTunnelAddress(ports, tunnel, limits)).toBeUndefined();
    expect(await ensureTunnelAddress(ipam.ports(), tunnel, limits)).toBeDefined();
  });

  it('is closed for the warm pool of the agent as soon as the interface has come, and open when it has gone', async () => {
    const { ipam } = await benchOn([]);
    let own: readonly UsedRange[] = [];
    const cache = new NodeCache(nodeName('n1'), () => own);
    const view = await ipam.ports().store.readNodeView(nodeName('n1'), undefined, ipam.signal);
    cache.apply({ kind: 'all', view, endpoints: [] });
    const closed = (): unknown => cache.pools.map((pool) => pool.closed !== undefined);
    const { cidr } = emptyBlock(parseCidr('172.31.0.0/26'), nodeName('n1'));
    expect([closed(), cache.poolOf('b', cidr)?.closed]).toEqual([[false, false], undefined]);
    own = OWN;
    expect([closed(), cache.poolOf('b', cidr)?.closed]).toEqual([[true, true], { over: OWN[0] }]);
    own = [];
    expect(closed()).toEqual([false, false]);
  });

  it('fails ADD with a stable code that names the interface', async () => {
    const node = await memoryNode();
    const ownRanges = [{ cidr: parseCidr('0.0.0.0/0'), what: 'the network of interface "eth0"' }];
    const { status, stdout } = await node.call('ADD', { ownRanges });
    expect(status).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      msg: expect.stringContaining('it overlaps 0.0.0.0/0, the network of interface "eth0"'),
    });
  });
});
