import { type InstallationPool, type InstallationSpec, poolName } from '../../model/installation.ts';
import { FAMILIES } from '../../net/address.ts';
import { parseCidr } from '../../net/cidr.ts';
import { imageNames } from './names.ts';
import { poolOf } from './pool-of.ts';
import type { ClusterDatastore, ClusterSettings, PluginLog, Variant } from './settings.ts';

/** What an installation depends on besides what its user writes. */
export interface Circumstances {
  readonly release: string;
  readonly variant: Variant;
  readonly datastore: ClusterDatastore;
  /** Pools for an installation that names none, from `choose-default-pool.ts`. */
  readonly defaultPools: readonly InstallationPool[];
  /** Number of nodes: a second replica needs a second node. */
  readonly nodes: number;
  readonly interfacePrefix?: string;
}

const SEVERITIES = { Error: 'ERROR', Warning: 'WARNING', Info: 'INFO', Debug: 'DEBUG' } as const;
/** Of the controllers, with enough nodes. */
export const REPLICAS = 2;

/** Returns the settings of an installation, with every default. The spec has been validated. Pure. */
export function settingsOf(spec: InstallationSpec, circumstances: Circumstances): ClusterSettings {
  const { release, variant, datastore, defaultPools, nodes, interfacePrefix } = circumstances;
  const { calicoNetwork: network = {}, registry, imagePullSecrets = [], node = {}, controllers = {} } = spec;
  const isWhole = variant === 'policy-and-networking';
  const ipam = isWhole ? (spec.cni?.ipam?.type ?? 'netplug-ipam') : 'HostLocal';
  const listed = network.ipPools ?? (ipam === 'HostLocal' ? [] : defaultPools);
  const families = FAMILIES.filter((family) => listed.some(({ cidr }) => parseCidr(cidr).base.family === family));
  return {
    release,
    variant,
    datastore,
    images: { ...imageNames(release, registry), pullSecrets: imagePullSecrets },
    ipam,
    families: families.length === 0 ? [4] : families,
    pools: ipam === 'HostLocal' ? [] : listed.map((pool, index) => poolOf(pool, poolName(listed, index))),
    bgp:
      isWhole &&
      ipam === 'netplug-ipam' &&
      isOn(
        network.bgp,
        listed.some(({ encapsulation }) => encapsulation === 'None'),
      ),
    mtu: network.mtu,
    hostPorts: isOn(network.hostPorts, true),
    bandwidth: isOn(network.bandwidth, true),
    policy: isOn(network.policy, true),
    containerIpForwarding: isOn(network.containerIPForwarding, false),
    floatingIps: isOn(network.floatingIPs, false),
    ipAddrsNoIpam: isOn(network.ipAddrsNoIpam, false),
    areAgentsHeld: false,
    detection: { 4: network.nodeAddressDetectionV4, 6: network.nodeAddressDetectionV6 },
    log: logOf(spec),
    interfacePrefix,
    node,
    controllers,
    replicas: spec.controlPlaneReplicas ?? Math.max(1, Math.min(REPLICAS, nodes)),
  };
}

function isOn(written: 'Enabled' | 'Disabled' | undefined, byDefault: boolean): boolean {
  return written === undefined ? byDefault : written === 'Enabled';
}

function logOf({ logging }: InstallationSpec): PluginLog {
  const { logSeverity, logFileMaxSizeMb, logFileMaxAgeDays, logFileMaxCount } = logging?.cni ?? {};
  return {
    severity: SEVERITIES[logSeverity ?? 'Info'],
    maxSizeMb: logFileMaxSizeMb ?? 100,
    maxAgeDays: logFileMaxAgeDays ?? 30,
    maxCount: logFileMaxCount ?? 10,
  };
}
