import { expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import { formatCidr } from '../net/cidr.ts';
import { protectedRanges } from './protected-ranges.ts';

type Link = Parameters<typeof protectedRanges>[0][number];

const linkWith = (name: string, ...texts: readonly string[]): Link => ({
  name,
  addresses: texts.map((text) => {
    const [address = '', prefixBits] = text.split('/');
    return { address: parseAddress(address), prefixBits: Number(prefixBits) };
  }),
});
const rangesOf = (...links: readonly Link[]): readonly string[] =>
  protectedRanges(links, []).map(({ cidr }) => formatCidr(cidr));

it('are networks and addresses of the node, and none that users of the cluster give to Services', () => {
  expect(rangesOf(linkWith('eth0', '172.31.0.11/24'), linkWith('bond0', '10.128.0.5/32'))).toEqual([
    '172.31.0.0/24',
    '10.128.0.5/32',
  ]);
  // kube-vip puts there the address of a Service.
  const shared = linkWith('eth0', '172.31.0.11/24', '10.83.0.200/32', 'fd00:31::11/64', 'fd00:83::200/128');
  expect(rangesOf(shared)).toEqual(['172.31.0.0/24', 'fd00:31::/64']);
  // kube-proxy with IPVS puts there what users write into the externalIPs of a Service.
  expect(rangesOf(linkWith('kube-ipvs0', '10.83.0.200/32', 'fd00:83::200/128'))).toEqual([]);
});

it('are addresses of the node that have no network, also beside local ones', () => {
  const [loopback, uplink] = [
    linkWith('lo', '127.0.0.1/8', '10.128.0.5/32'),
    linkWith('eth0', '10.128.0.6/32', 'fd00:31::11/128', 'fe80::1/64', 'fe80::2/64'),
  ];
  expect(rangesOf(loopback)).toContain('10.128.0.5/32');
  expect(rangesOf(uplink)).toEqual(['10.128.0.6/32', 'fd00:31::11/128', 'fe80::/64']);
});
