import { expect, it } from 'vitest';
import { ownerOfLink } from './foreign-links.ts';

it.each([
  ['antrea-gw0', 'Antrea'],
  ['br-1a2b3c4d5e6f', 'Docker'],
  ['cali0123456789a', 'Calico'],
  ['cilium_host', 'Cilium'],
  ['cni-podman0', 'the CNI plugin bridge'],
  ['cni0', 'the CNI plugin bridge'],
  ['docker0', 'Docker'],
  ['flannel.1', 'flannel'],
  ['flannel-v6.1', 'flannel'],
  ['genev_sys_6081', 'Open vSwitch'],
  ['incusbr0', 'Incus'],
  ['kube-bridge', 'kube-router'],
  ['kube-ipvs0', 'kube-proxy'],
  ['lxcbr0', 'LXC or Cilium'],
  ['lxc0123456789ab', 'LXC or Cilium'],
  ['lxdbr0', 'LXD'],
  ['nerdctl0', 'nerdctl'],
  ['nodelocaldns', 'NodeLocal DNSCache'],
  ['npl0123456789a', 'netplug'],
  ['ovn-k8s-mp0', 'OVN'],
  ['ovn0', 'OVN'],
  ['ovs-system', 'Open vSwitch'],
  ['podman0', 'Podman'],
  ['tailscale0', 'Tailscale'],
  ['tunl0', 'the kernel'],
  ['veth1234', 'a container runtime'],
  ['vethwe-bridge', 'a container runtime'],
  ['virbr0', 'libvirt'],
  ['vxlan.calico', 'a network plugin'],
  ['vxlan-6784', 'a network plugin'],
  ['vxlan_sys_4789', 'Open vSwitch'],
  ['weave', 'Weave'],
  ['wg0', 'WireGuard'],
  ['wireguard.cali', 'WireGuard'],
  ['ztabcdef12', 'ZeroTier'],
])('an interface "%s" is one that %s makes', (name, owner) => {
  expect(ownerOfLink(name)).toBe(owner);
});

it.each([
  'eth0',
  'eno1',
  'enp3s0',
  'ens5',
  'wlan0',
  'wlp2s0',
  'wwan0',
  'bond0',
  'team0',
  'br0',
  'bridge0',
  'vlan100',
  'uplink0',
  'eth0.100',
  'ib0',
  'tun0',
])('an interface "%s" may be the one of the node', (name) => {
  expect(ownerOfLink(name)).toBeUndefined();
});
