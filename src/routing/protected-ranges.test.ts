import { expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import { formatCidr } from '../net/cidr.ts';
import { protectedRanges } from './protected-ranges.ts';

const linkWith = (
  name: string,
  address: string,
  prefixBits: number,
): Parameters<typeof protectedRanges>[0][number] => ({
  name,
  addresses: [{ address: parseAddress(address), prefixBits }],
});
const rangesOf = (...links: readonly Parameters<typeof protectedRanges>[0][number][]): readonly string[] =>
  protectedRanges(links, []).map(({ cidr }) => formatCidr(cidr));

it('are networks and addresses of the node, and none that users of the cluster give to Services', () => {
  expect(rangesOf(linkWith('eth0', '172.31.0.11', 24), linkWith('bond0', '10.128.0.5', 32))).toEqual([
    '172.31.0.0/24',
    '10.128.0.5/32',
  ]);
  // kube-proxy with IPVS puts there what users write into the externalIPs of a Service.
  expect(rangesOf(linkWith('kube-ipvs0', '10.83.0.200', 32), linkWith('kube-ipvs0', 'fd00:83::200', 128))).toEqual([]);
});
