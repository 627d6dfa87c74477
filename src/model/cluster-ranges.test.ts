import { expect, it } from 'vitest';
import { nodeOf } from '../../test/support/fixtures.ts';
import { clusterRanges, rangesOfNode } from './cluster-ranges.ts';
import { describeRange } from './used-range.ts';

it('names ranges of Services, then networks and addresses of nodes, and leaves out other texts', () => {
  const nodes = [
    { name: 'a', addresses: ['10.0.0.5/8', 'fd00::5/64'] },
    { name: 'b', addresses: ['192.0.2.7', 'host.example'] },
  ];
  expect(clusterRanges({ nodes, serviceCidrs: ['10.96.0.0/16', 'fd00:96::/108', ''] }).map(describeRange)).toEqual([
    '10.96.0.0/16, a range of Services',
    'fd00:96::/108, a range of Services',
    '10.0.0.0/8, the network of node "a"',
    'fd00::/64, the network of node "a"',
    '192.0.2.7/32, the address of node "b"',
  ]);
});

it('takes the network that the agent has published before the addresses that are shown', () => {
  const bgp = { ipv4Address: '192.0.2.7/24', ipv6Address: '2001:db8::7/64' };
  const node = { ...nodeOf('a'), spec: { bgp, addresses: [{ address: '192.0.2.7', type: 'InternalIP' as const }] } };
  expect(rangesOfNode(node)).toEqual({ name: 'a', addresses: ['192.0.2.7/24', '2001:db8::7/64', '192.0.2.7'] });
});
