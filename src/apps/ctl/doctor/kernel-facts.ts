import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isNetplugError } from '../../../base/errors.ts';
import { exec } from '../../../base/exec.ts';
import { KERNEL_METRIC } from '../../../bgp/kernel-metric.ts';
import type { IncompleteLink } from '../../../dataplane/kernel.ts';
import type { OverruledPath } from '../../../dataplane/overruled-paths.ts';
import type { RateLimit } from '../../../dataplane/rate-limits.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import { forwardingSysctls, IPV6_SWITCH } from '../../../dataplane/link-sysctls.ts';
import { FAMILIES, type Family } from '../../../net/address.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { listWantedPaths } from '../../../routing/overruled-routes.ts';
import { modeOf, type PoolMode } from '../../../routing/pool-modes.ts';
import { TUNNEL_KINDS, TUNNELS, VXLAN_PORT, VXLAN_VNI } from '../../../routing/tunnels.ts';
import type { HostTable, PacketTables } from '../../../dataplane/packet-tables.ts';
import { type FirewallJudgement, judgeFirewall } from '../../../install/host/firewall/judge-firewall.ts';
import { listedSource, readFilters } from '../../../install/host/firewall/read-filters.ts';
import { readLegacyFilters } from '../../../install/host/firewall/read-legacy-filters.ts';
import { findFullTables, type FullTable } from '../../../install/host/kernel-tables.ts';
import { readKernelTables } from '../../../install/host/read-kernel-tables.ts';
import { findUnconnectedPods, type UnconnectedPod } from '../../../install/host/unconnected-pods.ts';
import type { LeftOver } from '../../../install/host/left-overs.ts';
import { readDevices, readLeftOvers } from './read-left-overs.ts';
import { readNodeTraffic } from './read-node-traffic.ts';
import type { Sources } from './sources.ts';

/** Kernel features that netplug may need. */
const DEVICES = ['veth', 'vxlan', 'ipip'] as const;
export const ABILITIES = [...DEVICES, 'nf_tables'] as const;
export type Ability = (typeof ABILITIES)[number];
type Abilities = Readonly<Record<Ability, boolean | undefined>>;

/** How a kernel without nf_tables refuses. */
const UNSUPPORTED: readonly unknown[] = ['EINVAL', 'EOPNOTSUPP', 'EPROTONOSUPPORT'];

export interface KernelFacts {
  /** Release as `uname -r` prints it. */
  readonly release: string;
  /** IP families of the pods of this node. */
  readonly families: ReadonlySet<Family>;
  readonly needed: ReadonlySet<Ability>;
  /** Result of a test in a separate network namespace; undefined when the test could not run. */
  readonly abilities: Abilities;
  /** By path below /proc/sys/net; undefined for settings that the kernel does not have. */
  readonly sysctls: Readonly<Record<string, string | undefined>>;
  /** What the host firewall drops of what the node needs. */
  readonly firewall: FirewallJudgement;
  /** Tables of the kernel without room. */
  readonly fullTables: readonly FullTable[];
  /** Links by which IPv4 packets for pods come: tunnels, the link with the address of the node, and those of learned routes. */
  readonly forwardingLinks: readonly string[];
  readonly incompleteLinks: readonly IncompleteLink[];
  /** Pods whose namespaces exist and that have no link, as far as the runtime has recorded them. */
  readonly unconnected: readonly UnconnectedPod[];
  /** What other network plugins have left; none while one is configured, which then uses these. */
  readonly leftOvers: readonly LeftOver[];
  /** VXLAN devices of other programs that have number and port of netplug's. */
  readonly rivals: readonly string[];
  /** What packets do in place of taking the routes of netplug. */
  readonly overruled: readonly OverruledPath[];
  /** Limits of the rates of pods. */
  readonly rateLimits: readonly RateLimit[];
  /** Devices on which kube-proxy with IPVS has the addresses of Services. */
  readonly ipvsDevices: readonly string[];
  /** Tunnel devices that exist. */
  readonly tunnels: readonly string[];
}

const SYSCTLS = [
  IPV6_SWITCH,
  'ipv6/conf/all/disable_ipv6',
  'ipv6/conf/default/disable_ipv6',
  'ipv4/conf/all/rp_filter',
  'ipv4/conf/all/arp_ignore',
];

/** Commands that create a device of the kind; the device vanishes with the namespace when the process exits. */
const TRIALS: Readonly<Record<(typeof DEVICES)[number], readonly string[]>> = {
  veth: ['ip', 'link', 'add', 'npl-trial', 'type', 'veth'],
  vxlan: ['ip', 'link', 'add', 'npl-trial', 'type', 'vxlan', 'id', '1', 'dstport', '4789'],
  ipip: ['ip', 'link', 'add', 'npl-trial', 'type', 'ipip', 'local', '127.0.0.1'],
};

export async function gatherKernel(sources: Sources, signal: AbortSignal): Promise<KernelFacts> {
  const { procDir } = sources.context.ports.host;
  const pools = await sources.pools();
  const families = await familiesOf(sources, pools);
  const kernel = sources.context.ports.openKernel();
  const host = sources.context.ports.openHostNetwork();
  const packetTables = sources.context.ports.openPacketTables();
  const { listed } = await tryTables(packetTables, signal);
  const legacy = await readLegacyFilters({ procDir }, signal);
  const filters = [...(await readFilters(listedSource(listed, packetTables), signal)), ...legacy.filters];
  const traffic = await readNodeTraffic(sources, { pools, families });
  const links = await readDevices(procDir);
  const files = await sources.confFiles();
  const tunnels = TUNNEL_KINDS.map((kind) => TUNNELS[kind].device).filter((device) => links.includes(device));
  const learned = await host.listLearnedDevices(KERNEL_METRIC);
  const forwardingLinks = [...new Set([...tunnels.filter(carriesIpv4), ...(await uplinksOf(sources)), ...learned])];
  const paths = [
    ...SYSCTLS,
    ...tunnels.map((device) => `ipv4/conf/${device}/rp_filter`),
    ...forwardingSysctls(families, forwardingLinks).map(({ path }) => path),
  ];
  return {
    release: (await readFile(join(procDir, 'sys/kernel/osrelease'), 'utf8')).trim(),
    families,
    needed: neededFor(pools),
    // One entry per ability.
    abilities: await tryAbilities(packetTables, signal),
    sysctls: Object.fromEntries(
      await Promise.all(paths.map(async (path) => [path, await readSysctl(join(procDir, 'sys/net', path))] as const)),
    ),
    firewall: judgeFirewall({ filters, unread: legacy.unread }, traffic),
    fullTables: findFullTables(await readKernelTables({ procDir, host }), undefined),
    forwardingLinks,
    leftOvers: await readLeftOvers({ procDir, tables: packetTables }, { files, listed }, signal),
    ipvsDevices: links.filter((name) => name.startsWith('kube-ipvs')),
    unconnected: await findUnconnectedPods(kernel, sources.context.ports.machine.resultsDir),
    rivals: await host.findRivals({ vni: VXLAN_VNI, port: VXLAN_PORT }),
    overruled: await host.findOverruled(await listWantedPaths(host)),
    incompleteLinks: await kernel.listIncompleteLinks({ settings: true }),
    rateLimits: await kernel.listRateLimits(),
    tunnels,
  };
}

function carriesIpv4(device: string): boolean {
  return TUNNEL_KINDS.some((kind) => TUNNELS[kind].device === device && TUNNELS[kind].family === 4);
}

/** Returns the link with the IPv4 address that the agent has chosen; none while no agent answers. */
async function uplinksOf(sources: Sources): Promise<readonly string[]> {
  const { network } = await sources.agent();
  return (network?.addresses ?? []).filter(({ address }) => address.includes('.')).map(({ device }) => device);
}

/** Returns the kernel features that the pools need. */
export function neededFor(pools: readonly IpPool[]): ReadonlySet<Ability> {
  const modes = new Set(pools.map((pool): PoolMode['kind'] => modeOf(pool).kind));
  const needsRules = modes.has('vxlan') || modes.has('ipip') || pools.some(({ spec }) => spec.natOutgoing);
  return new Set<Ability>([
    'veth',
    ...(modes.has('vxlan') ? (['vxlan'] as const) : []),
    ...(modes.has('ipip') ? (['ipip'] as const) : []),
    ...(needsRules ? (['nf_tables'] as const) : []),
  ]);
}

/** Returns the families of the pools, or without pools those of the network configuration. */
async function familiesOf(sources: Sources, pools: readonly IpPool[]): Promise<ReadonlySet<Family>> {
  const ipam = (await sources.confFiles()).find(({ netconf }) => netconf !== undefined)?.netconf?.ipam;
  const usual = ipam?.type === 'netplug-ipam' ? { 4: ipam.v4.assign, 6: ipam.v6.assign } : { 4: true, 6: false };
  const ofPools = new Set(pools.map(({ spec }) => parseCidr(spec.cidr).base.family));
  return new Set(FAMILIES.filter((family) => usual[family] && (ofPools.size === 0 || ofPools.has(family))));
}

/** Returns which features the kernel has; undefined for those that cannot be tested. */
export async function tryAbilities(tables: PacketTables, signal: AbortSignal): Promise<Abilities> {
  const devices = await Promise.all(DEVICES.map(async (device) => [device, await tryDevice(device, signal)] as const));
  const { isSupported } = await tryTables(tables, signal);
  return { ...(Object.fromEntries(devices) as Omit<Abilities, 'nf_tables'>), nf_tables: isSupported };
}

async function tryTables(
  tables: PacketTables,
  signal: AbortSignal,
): Promise<{ readonly listed: readonly HostTable[]; readonly isSupported: boolean | undefined }> {
  try {
    return { listed: await tables.list(signal), isSupported: true };
  } catch (cause) {
    if (!isNetplugError(cause, 'kernel/failed')) throw cause;
    // Other errors, such as missing permissions, say nothing about the kernel.
    return { listed: [], isSupported: UNSUPPORTED.includes(cause.facts['errno']) ? false : undefined };
  }
}

async function tryDevice(device: (typeof DEVICES)[number], signal: AbortSignal): Promise<boolean | undefined> {
  try {
    const { status, stderr } = await exec('unshare', ['--net', ...TRIALS[device]], { signal });
    if (status === 0) return true;
    return /not supported|Unknown device type|No such device/i.test(stderr) ? false : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

async function readSysctl(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').then(
    (text) => text.trim(),
    () => undefined,
  );
}
