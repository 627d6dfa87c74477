import { expect, it } from 'vitest';
import type { HostTable } from '../../../dataplane/packet-tables.ts';
import { findLeftOvers } from './left-overs.ts';

const table = (family: string, name: string, ...chains: readonly string[]): HostTable => ({
  family,
  name,
  chains: chains.map((chain) => ({ name: chain, rules: [] })),
  sets: [],
});
const OWN = [table('inet', 'netplug-policy', 'forward-ingress'), table('ip', 'filter', 'KUBE-FORWARD', 'FORWARD')];
const OWN_DEVICES = ['lo', 'eth0', 'npl0a1a8e6e31cb', 'vxlan.netplug', 'vxlan6.netplug', 'kube-ipvs0', 'bwp1', 'cni0'];

it.each([
  ['Calico', 'vxlan.calico', 'cali-FORWARD'],
  ['Calico', 'cali0123456789a', 'cali-pi-_abc'],
  ['Cilium', 'cilium_host', 'CILIUM_FORWARD'],
  ['flannel', 'flannel.1', 'FLANNEL-POSTRTG'],
  ['kube-router', 'kube-bridge', 'KUBE-NWPLCY-DEFAULT'],
  ['Weave', 'vethwe-bridge', 'WEAVE-NPC'],
])('finds what %s has left: %s and %s', (plugin, device, chain) => {
  expect(findLeftOvers([...OWN_DEVICES, device], [...OWN, table('ip', 'nat', chain)])).toEqual([
    { plugin, devices: [device], chains: [`ip nat ${chain}`] },
  ]);
});

it('takes nothing of netplug, kube-proxy and the standard plugins for a left-over', () => {
  expect(findLeftOvers(OWN_DEVICES, OWN)).toEqual([]);
  expect(findLeftOvers(['calico', 'xcali0123456789a', 'weaver0'], [table('ip', 'nat', 'xcali-', 'WEAVER')])).toEqual(
    [],
  );
});
