import { expect, it } from 'vitest';
import { nodeName, poolOf } from '../../test/support/fixtures.ts';
import type { IpPool } from '../model/ip-pool.ts';
import type { Node } from '../model/node.ts';
import { formatCidr } from '../net/cidr.ts';
import { LINGER_MS, OPEN_MS, PoolModes } from './pool-modes.ts';
import { tunnelledPools } from './tunnelled-pools.ts';

function nodeAt(name: string, ipv4Address: string): Node {
  return { apiVersion: 'netplug.io/v3', kind: 'Node', metadata: { name }, spec: { bgp: { ipv4Address } } };
}
const NODES = [nodeAt('a', '192.0.2.1/24'), nodeAt('b', '192.0.2.2/24'), nodeAt('c', '198.51.100.3/24')];

function found(pools: PoolModes, nodes = NODES): readonly string[] {
  return tunnelledPools('vxlan4', nodeName('a'), { pools: pools.list(), nodes }).map(
    ({ pools: to, from }) => `${to.map(formatCidr).join()} from ${from?.map(formatCidr).join() ?? 'all'}`,
  );
}

function modes(...list: readonly IpPool[]): PoolModes {
  const pools = new PoolModes();
  for (const pool of list) pools.put(pool, 0);
  return pools;
}

it('closes pools of the tunnel, those with CrossSubnet among themselves', () => {
  const pools = modes(
    poolOf('one', '10.65.0.0/16', { vxlanMode: 'Always' }),
    poolOf('two', '10.66.0.0/16', { vxlanMode: 'CrossSubnet' }),
    poolOf('three', '10.67.0.0/16', { ipipMode: 'Always' }),
    poolOf('four', '10.68.0.0/16'),
  );
  expect(found(pools)).toEqual(['10.65.0.0/16 from all', '10.66.0.0/16 from 10.66.0.0/16']);
});

it('leaves a pool open while packets may come by the mode that it had before', () => {
  const pools = modes(poolOf('one', '10.65.0.0/16', {}));
  pools.put(poolOf('one', '10.65.0.0/16', { vxlanMode: 'Always' }), 1000);
  expect(found(pools)).toEqual([]);
  pools.expire(1000 + LINGER_MS);
  expect(found(pools)).toEqual([]);
  pools.expire(1000 + LINGER_MS + OPEN_MS);
  expect(found(pools)).toEqual(['10.65.0.0/16 from all']);
});

it('leaves pools with CrossSubnet open when a node has another idea of its subnet, or this one has no address', () => {
  const pools = modes(poolOf('two', '10.66.0.0/16', { vxlanMode: 'CrossSubnet' }));
  expect(found(pools, [...NODES, nodeAt('d', '192.0.3.4/16')])).toEqual([]);
  expect(found(pools, NODES.slice(1))).toEqual([]);
});
