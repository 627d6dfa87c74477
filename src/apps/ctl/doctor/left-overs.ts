import type { HostTable } from '../../../dataplane/packet-tables.ts';

/** Devices and rules on a node that another network plugin has left. */
export interface LeftOver {
  readonly plugin: string;
  /** Names of network devices. */
  readonly devices: readonly string[];
  /** Chains of nftables, also those that iptables made there, as `ip filter cali-FORWARD`. */
  readonly chains: readonly string[];
}

/** How a plugin names what it makes on a node. */
interface Traces {
  readonly plugin: string;
  readonly device: RegExp;
  readonly chain: RegExp;
}

const TRACES: readonly Traces[] = [
  { plugin: 'Calico', device: /^(cali[0-9a-f]{11}|vxlan(-v6)?\.calico|(wireguard|wg-v6)\.cali)$/, chain: /^cali[-:]/ },
  {
    plugin: 'Cilium',
    device: /^(cilium_(host|net|vxlan|geneve)|lxc([0-9a-f]{12}|_health))$/,
    chain: /^(OLD_)?CILIUM_/,
  },
  { plugin: 'flannel', device: /^flannel(\.\d+|-v6\.\d+|-wg(-v6)?)$/, chain: /^FLANNEL-/ },
  { plugin: 'kube-router', device: /^kube-bridge$/, chain: /^KUBE-(ROUTER|POD-FW|NWPLCY|SVC-FW)-/ },
  { plugin: 'Weave', device: /^(weave|datapath|vxlan-6784|vethwe-.+)$/, chain: /^WEAVE(-|$)/ },
];

/** Finds what other plugins have left. A plugin in use has the same, so this says something only where there is none. Pure. */
export function findLeftOvers(devices: readonly string[], tables: readonly HostTable[]): readonly LeftOver[] {
  const chains = tables.flatMap(({ family, name: table, chains: all }) =>
    all.map(({ name }) => ({ name, full: `${family} ${table} ${name}` })),
  );
  return TRACES.map(({ plugin, device, chain }) => ({
    plugin,
    devices: devices.filter((name) => device.test(name)),
    chains: chains.filter(({ name }) => chain.test(name)).map(({ full }) => full),
  })).filter((found) => found.devices.length + found.chains.length > 0);
}
