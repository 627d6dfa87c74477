import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { HostTable } from '../../dataplane/packet-tables.ts';
import { findLeftOvers, KNOWN_PLUGINS, type KernelObjects, leftOverSentence } from './left-overs.ts';

const table = (family: string, name: string, ...chains: readonly string[]): HostTable => ({
  family,
  name,
  chains: chains.map((chain) => ({ name: chain, rules: [] })),
  sets: [],
});
const OWN: KernelObjects = {
  devices: ['lo', 'eth0', 'npl0a1a8e6e31cb', 'vxlan.netplug', 'vxlan6.netplug', 'kube-ipvs0', 'bwp1', 'cni0'],
  tables: [table('inet', 'netplug-policy', 'forward-ingress'), table('ip', 'filter', 'KUBE-FORWARD', 'FORWARD')],
  sets: ['KUBE-CLUSTER-IP', 'KUBE-NODE-PORT-TCP', 'KUBE-LOAD-BALANCER-SOURCE-CIDR', 'f2b-sshd'],
  pins: ['ip', 'tc', 'xdp', 'snap'],
};
const NONE: KernelObjects = { devices: [], tables: [], sets: [], pins: [] };

it.each([
  ['Calico', 'vxlan.calico', 'cali-FORWARD'],
  ['Calico', 'cali0123456789a', 'cali-pi-_abc'],
  ['Cilium', 'cilium_host', 'CILIUM_FORWARD'],
  ['flannel', 'flannel.1', 'FLANNEL-POSTRTG'],
  ['kube-router', 'kube-bridge', 'KUBE-NWPLCY-DEFAULT'],
  ['Weave', 'vethwe-bridge', 'WEAVE-NPC'],
])('finds what %s has left: %s and %s', (plugin, device, chain) => {
  const found = { ...OWN, devices: [...OWN.devices, device], tables: [...OWN.tables, table('ip', 'nat', chain)] };
  expect(findLeftOvers(found)).toEqual([
    { plugin, devices: [device], chains: [`ip nat ${chain}`], sets: [], pins: [] },
  ]);
});

it.each([
  ['Calico', 'calico', 'filter-FORWARD'],
  ['flannel', 'flannel-ipv6', 'postrtg'],
])('finds the tables of nftables that %s has left: %s', (plugin, name, chain) => {
  expect(findLeftOvers({ ...OWN, tables: [...OWN.tables, table('ip6', name, chain)] })).toEqual([
    { plugin, devices: [], chains: [`ip6 ${name} ${chain}`], sets: [], pins: [] },
  ]);
});

it.each(KNOWN_PLUGINS)('has a chapter of docs/migration.md that says what to remove of %s', (plugin) => {
  const page = readFileSync(new URL('../../../docs/migration.md', import.meta.url), 'utf8');
  expect(page).toContain(`\n## ${plugin}\n`);
});

it.each([
  ['kube-router', 'kube-router-pod-subnets'],
  ['kube-router', 'inet6:kube-router-node-ips'],
  ['kube-router', 'KUBE-DST-2FAIIK2E4RIPMTGF'],
  ['Calico', 'cali40all-ipam-pools'],
  ['Cilium', 'cilium_node_set_v4'],
  ['Weave', 'weave-E1ney4o[ojNrLk.6rOHi;7MPE'],
])('finds the sets of ipset that %s has left: %s', (plugin, set) => {
  expect(findLeftOvers({ ...OWN, sets: [...OWN.sets, set] })).toEqual([
    { plugin, devices: [], chains: [], sets: [set], pins: [] },
  ]);
});

it.each([
  ['Cilium', 'cilium'],
  ['Cilium', 'cilium_calls_hostns_00012'],
  ['Calico', 'cali_v4_ct3'],
])('finds the programs and maps of eBPF that %s has left: %s', (plugin, pin) => {
  expect(findLeftOvers({ ...OWN, pins: [...OWN.pins, pin] })).toEqual([
    { plugin, devices: [], chains: [], sets: [], pins: [pin] },
  ]);
});

it('takes nothing of netplug, kube-proxy and the standard plugins for a left-over', () => {
  expect(findLeftOvers(OWN)).toEqual([]);
  const alike = { ...NONE, devices: ['calico', 'xcali0123456789a', 'weaver0'] };
  expect(findLeftOvers({ ...alike, tables: [table('ip', 'nat', 'xcali-', 'WEAVER')] })).toEqual([]);
  expect(findLeftOvers({ ...NONE, sets: ['xkube-router-', 'KUBE-SRC-'], pins: ['ciliumx'] })).toEqual([]);
});

it('names the plugin and the first of each kind', () => {
  const sets = ['kube-router-pod-subnets', 'kube-router-node-ips', 'kube-router-local-ips', 'kube-router-svip'];
  expect(findLeftOvers({ ...NONE, devices: ['kube-bridge'], sets }).map(leftOverSentence)).toEqual([
    'kube-router has left 1 device ("kube-bridge") and 4 sets of ipset ("kube-router-pod-subnets", "kube-router-node-ips", "kube-router-local-ips", …)',
  ]);
});
