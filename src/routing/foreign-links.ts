/** Who names interfaces so that their names begin like this. One of them is not the node's own, unless something else says so. */
const NAMES: readonly (readonly [start: string, owner: string])[] = [
  ['antrea-', 'Antrea'],
  ['azv', 'Azure CNI'],
  ['br-', 'Docker'],
  ['cali', 'Calico'],
  ['cbr', 'kubenet'],
  ['cilium_', 'Cilium'],
  ['cni', 'the CNI plugin bridge'],
  ['docker', 'Docker'],
  ['dummy', 'the kernel'],
  ['flannel', 'flannel'],
  ['genev_sys', 'Open vSwitch'],
  ['incusbr', 'Incus'],
  ['kube-bridge', 'kube-router'],
  ['kube-dummy', 'kube-router'],
  ['kube-ipvs', 'kube-proxy'],
  ['lxc', 'LXC or Cilium'],
  ['lxdbr', 'LXD'],
  ['nerdctl', 'nerdctl'],
  ['nodelocaldns', 'NodeLocal DNSCache'],
  ['npl', 'netplug'],
  ['ovn', 'OVN'],
  ['ovs-', 'Open vSwitch'],
  ['podman', 'Podman'],
  ['tailscale', 'Tailscale'],
  ['tunl', 'the kernel'],
  ['veth', 'a container runtime'],
  ['virbr', 'libvirt'],
  ['vxlan.', 'a network plugin'],
  ['vxlan-', 'a network plugin'],
  ['vxlan_sys', 'Open vSwitch'],
  ['weave', 'Weave'],
  ['wg', 'WireGuard'],
  ['wireguard', 'WireGuard'],
  ['zt', 'ZeroTier'],
];

/** Returns the program that names interfaces so; undefined for a name that administrators and installers choose. */
export function ownerOfLink(name: string): string | undefined {
  return NAMES.find(([start]) => name.startsWith(start))?.[1];
}
