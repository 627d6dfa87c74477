import { describe, expect, it } from 'vitest';
import { nodeName, poolOf } from '../../test/support/fixtures.ts';
import { IpamBench, requestOf } from '../../test/support/ipam-bench.ts';
import { memoryNode } from '../../test/support/memory-node.ts';
import { emptyBlock } from '../model/ip-block.ts';
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
