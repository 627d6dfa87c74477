import { expect, it } from 'vitest';
import { type Encapsulation, podMtu } from './tunnel-mtu.ts';

it.each<[string, readonly number[], readonly Encapsulation[], number]>([
  ['the MTU of the uplink without tunnels', [1500], [], 1500],
  ['the smallest uplink', [9000, 1500], [], 1500],
  ['what VXLAN over IPv4 leaves', [1500], ['vxlan-over-ipv4'], 1450],
  ['what VXLAN over IPv6 leaves', [1500], ['vxlan-over-ipv6'], 1430],
  ['what IP-in-IP leaves', [1500], ['ipip'], 1480],
  ['what the largest of several encapsulations leaves', [9000], ['ipip', 'vxlan-over-ipv6', 'vxlan-over-ipv4'], 8930],
  ['the minimum for IPv6', [1350], ['vxlan-over-ipv6'], 1280],
])('pods are offered %s', (_what, uplinkMtus, encapsulations, mtu) => {
  expect(podMtu({ uplinkMtus, encapsulations: new Set(encapsulations), hasIpv6Pods: true })).toEqual({
    kind: 'offered',
    mtu,
  });
});

it('reports an MTU below the minimum of IPv6 as a problem only when pods have IPv6', () => {
  const input = { uplinkMtus: [1300], encapsulations: new Set<Encapsulation>(['vxlan-over-ipv4']) };
  expect(podMtu({ ...input, hasIpv6Pods: false })).toEqual({ kind: 'offered', mtu: 1250 });
  expect(podMtu({ ...input, hasIpv6Pods: true })).toEqual({
    kind: 'problem',
    problem: 'Cannot offer an MTU to pods: 1250 of 1300 bytes are left after encapsulation, and IPv6 needs 1280',
  });
});

it('offers no MTU while the uplinks are unknown', () => {
  expect(podMtu({ uplinkMtus: [], encapsulations: new Set(), hasIpv6Pods: false })).toMatchObject({ kind: 'problem' });
});
