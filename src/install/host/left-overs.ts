import { counted } from '../../base/counted.ts';
import type { HostTable } from '../../dataplane/packet-tables.ts';

/** What of the kernel another network plugin has left on a node, by name. */
export interface LeftOver {
  readonly plugin: string;
  /** Network devices. */
  readonly devices: readonly string[];
  /** Chains of nftables, also those that iptables made there, as `ip filter cali-FORWARD`. */
  readonly chains: readonly string[];
  /** Sets of ipset. */
  readonly sets: readonly string[];
  /** Pinned programs and maps of eBPF. */
  readonly pins: readonly string[];
}

/** Names of what a node has, of all programs. */
export interface KernelObjects {
  readonly devices: readonly string[];
  readonly tables: readonly HostTable[];
  readonly sets: readonly string[];
  readonly pins: readonly string[];
}

/** How a plugin names what it makes on a node. */
interface Traces {
  readonly plugin: string;
  /** Types of CNI plugins, or the bridge, that configurations name while it is in use: its own, and those beside which it has policies. */
  readonly configuredAs: readonly string[];
  readonly device: RegExp;
  readonly chain: RegExp;
  /** Tables of nftables of the plugin alone, whose chains have names that say nothing. */
  readonly table?: RegExp;
  readonly set?: RegExp;
  readonly pin?: RegExp;
}

const TRACES: readonly Traces[] = [
  {
    plugin: 'Calico',
    configuredAs: ['calico', 'aws-cni', 'azure-vnet'],
    device: /^(cali[0-9a-f]{11}|vxlan(-v6)?\.calico|(wireguard|wg-v6)\.cali|bpf(in|out)\.cali)$/,
    chain: /^cali[-:]/,
    table: /^calico$/,
    set: /^cali[46]0/,
    pin: /^cali_/,
  },
  {
    plugin: 'Cilium',
    configuredAs: ['cilium-cni'],
    device: /^(cilium_(host|net|vxlan|geneve|wg0|ipip[46]|tunl)|lxc([0-9a-f]{12}|_health))$/,
    chain: /^(OLD_)?CILIUM_/,
    set: /^cilium_node_set_v[46]$/,
    pin: /^cilium(_|$)/,
  },
  {
    plugin: 'flannel',
    configuredAs: ['flannel', 'calico'],
    device: /^flannel(\.\d+|-v6\.\d+|-wg(-v6)?)$/,
    chain: /^FLANNEL-/,
    table: /^flannel-ipv[46]$/,
  },
  {
    plugin: 'kube-router',
    configuredAs: ['kube-bridge', 'flannel'],
    device: /^kube-(bridge|dummy-if)$/,
    chain: /^KUBE-(ROUTER|POD-FW|NWPLCY|SVC-FW)-/,
    set: /^(inet6:)?(kube-router-|KUBE-(SRC|DST)-[0-9A-Z]{16})/,
  },
  {
    plugin: 'Weave',
    configuredAs: ['weave-net'],
    device: /^(weave|datapath|vxlan-6784|vethwe-.+)$/,
    chain: /^WEAVE(-|$)/,
    set: /^weave-/,
  },
];

/** The plugins whose left-overs are known. */
export const KNOWN_PLUGINS: readonly string[] = TRACES.map(({ plugin }) => plugin);

/** Finds what other plugins have left. A plugin in use has the same, so those that configurations name are left out. Pure. */
export function findLeftOvers(
  { devices, tables, sets, pins }: KernelObjects,
  configured: ReadonlySet<string> = new Set(),
): readonly LeftOver[] {
  const chains = tables.flatMap(({ family, name: table, chains: own }) =>
    own.map(({ name }) => ({ name, table, full: `${family} ${table} ${name}` })),
  );
  const unused = TRACES.filter(({ configuredAs }) => !configuredAs.some((name) => configured.has(name)));
  const all = unused.map(({ plugin, device, chain, table: own, set, pin }) => ({
    plugin,
    devices: devices.filter((name) => device.test(name)),
    chains: chains.filter(({ name, table }) => chain.test(name) || own?.test(table) === true).map(({ full }) => full),
    sets: sets.filter((name) => set?.test(name) === true),
    pins: pins.filter((name) => pin?.test(name) === true),
  }));
  return all.filter((found) => found.devices.length + found.chains.length + found.sets.length + found.pins.length > 0);
}

const SHOWN = 3;

/** Returns what the plugin has left, as a sentence. */
export function leftOverSentence({ plugin, devices, chains, sets, pins }: LeftOver): string {
  const what = [
    ...namesOf(devices, 'device'),
    ...namesOf(chains, 'chain'),
    ...namesOf(sets, 'set of ipset', 'sets of ipset'),
    ...namesOf(pins, 'pin of eBPF', 'pins of eBPF'),
  ];
  return `${plugin} has left ${what.join(' and ')}`;
}

export const LEFT_OVER_REMEDY =
  'Remove it, as docs/migration.md says for that plugin, or restart the node: none of it survives that';

function namesOf(names: readonly string[], one: string, many?: string): readonly string[] {
  if (names.length === 0) return [];
  const shown = names.slice(0, SHOWN).map((name) => `"${name}"`);
  return [`${counted(names.length, one, many)} (${shown.join(', ')}${names.length > shown.length ? ', …' : ''})`];
}
