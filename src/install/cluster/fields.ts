// A table: one row for each field of the spec of an Installation.
import { CONTROLLERS } from '../../model/automatic-host-endpoint.ts';
import { LOG_SEVERITIES } from '../../model/installation.ts';
import { type Field, inChained, inKey, inVariable, on } from './field.ts';
import { readIpam } from './ipam-section.ts';
import { BIN_DIR, CONF_DIR } from '../places.ts';
import { CHAINED_TYPES } from '../../config/lint-chain.ts';
import { AGENT_SET, DEFAULT_REGISTRY, FOLDER_VARIABLES } from './names.ts';
import { TYPHA } from '../../model/typha.ts';
import { installationPoolOf } from './pool-of.ts';
import { type FieldPath, type FieldValue, objectOf, valueAt } from './spec-path.ts';

/** Replicas of the controllers, with enough nodes. */
const REPLICAS = 2;
/** Servers of the fan-out where no operator follows the number of nodes: two are enough for a thousand, and one may be missing. */
export const TYPHA_REPLICAS = 3;
/** Pools of which only the address families matter. */
const POOL_OF = { 4: { cidr: '192.168.0.0/16' }, 6: { cidr: 'fd00::/48' } } as const;

const number = (found: unknown): number | undefined => (typeof found === 'number' ? found : undefined);
const numberIn = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));
const severity = (found: unknown) => LOG_SEVERITIES.find((each) => each.toUpperCase() === found);

const UNUSED = { 'policy-only': undefined };
const OFF = { 'policy-only': 'Disabled' } as const;
const OFF_BESIDE = { 'second-plugin': 'Disabled', 'policy-only': 'Disabled' } as const;

/** Settings, objects, what is read from them, and warnings follow from these rows. The conflist has its keys in their order. */
const FIELDS: { readonly [P in FieldPath]: Field<FieldValue<P>> } = {
  // There is one plugin.
  'cni.type': { byDefault: 'netplug' },
  'cni.ipam.type': {
    complete: (_, { hasPools }) => (hasPools ? 'netplug-ipam' : 'HostLocal'),
    idle: { 'second-plugin': 'HostLocal', 'policy-only': 'HostLocal' },
    read: ({ plugin }) => plugin && readIpam(plugin['ipam']).type,
  },
  'cni.chainedPlugins': {
    byDefault: [],
    idle: { 'policy-only': [] },
    read: ({ plugin, chained }) => plugin && chained.filter(({ type }) => !CHAINED_TYPES.includes(String(type))),
  },
  'cni.binDir': { byDefault: BIN_DIR, idle: UNUSED, ...inVariable(FOLDER_VARIABLES.binDir, BIN_DIR) },
  'cni.confDir': { byDefault: CONF_DIR, idle: UNUSED, ...inVariable(FOLDER_VARIABLES.confDir, CONF_DIR) },
  'calicoNetwork.ipPools': {
    complete: (_, { hasPools, listed, pools }) => (hasPools ? pools.map(installationPoolOf) : listed),
    idle: UNUSED,
    // Pools themselves are the user's.
    read: ({ plugin }) => plugin && readIpam(plugin['ipam']).families.map((family) => POOL_OF[family]),
  },
  'calicoNetwork.bgp': {
    complete: (written, { hasPools, listed }) => {
      const isNeeded = listed.some(({ encapsulation }) => encapsulation === 'None');
      return hasPools ? (written ?? (isNeeded ? 'Enabled' : 'Disabled')) : 'Disabled';
    },
    idle: OFF_BESIDE,
    read: ({ hasBird }) => (hasBird ? 'Enabled' : 'Disabled'),
  },
  'calicoNetwork.mtu': { idle: UNUSED, ...inKey('mtu', number) },
  'calicoNetwork.hostPorts': { byDefault: 'Enabled', idle: OFF, ...inChained('portmap') },
  'calicoNetwork.bandwidth': { byDefault: 'Enabled', idle: OFF, ...inChained('bandwidth') },
  'calicoNetwork.bandwidthBurstMs': {
    idle: UNUSED,
    variable: 'NETPLUG_BANDWIDTH_BURST_MS',
    encode: String,
    read: ({ variable }) => numberIn(variable('NETPLUG_BANDWIDTH_BURST_MS')),
  },
  'calicoNetwork.policy': { byDefault: 'Enabled', idle: { 'policy-only': 'Enabled' }, ...on('policy.type', 'orch') },
  'calicoNetwork.containerIPForwarding': {
    byDefault: 'Disabled',
    idle: OFF,
    ...on('container_settings.allow_ip_forwarding', true),
  },
  'calicoNetwork.ipAddrsNoIpam': { byDefault: 'Disabled', idle: OFF, ...on('feature_control.ip_addrs_no_ipam', true) },
  'calicoNetwork.floatingIPs': { byDefault: 'Disabled', idle: OFF_BESIDE, ...on('feature_control.floating_ips', true) },
  'calicoNetwork.nodeAddressDetectionV4': inVariable('NETPLUG_IP'),
  'calicoNetwork.nodeAddressDetectionV6': inVariable('NETPLUG_IP6'),
  'logging.cni.logSeverity': {
    byDefault: 'Info',
    idle: UNUSED,
    ...inKey('log_level', severity, (value) => value.toUpperCase()),
  },
  'logging.cni.logFileMaxSizeMb': { byDefault: 100, idle: UNUSED, ...inKey('log_file_max_size', number) },
  'logging.cni.logFileMaxAgeDays': { byDefault: 30, idle: UNUSED, ...inKey('log_file_max_age', number) },
  'logging.cni.logFileMaxCount': { byDefault: 10, idle: UNUSED, ...inKey('log_file_max_count', number) },
  registry: {
    complete: (written = DEFAULT_REGISTRY) => written.replace(/\/$/, ''),
    read: ({ registry }) => registry,
  },
  imagePullSecrets: { byDefault: [], read: ({ pullSecrets }) => (pullSecrets.length === 0 ? undefined : pullSecrets) },
  node: { byDefault: {}, override: { kind: 'DaemonSet', name: AGENT_SET } },
  controllers: { byDefault: {}, override: { kind: 'Deployment', name: CONTROLLERS } },
  typha: {
    complete: (written, { datastore, typhaReplicas }) =>
      written?.mode === 'Enabled' && datastore === 'orch'
        ? { ...written, mode: 'Enabled', replicas: typhaReplicas ?? written.replicas ?? TYPHA_REPLICAS }
        : { mode: 'Disabled' },
    read: ({ typhaReplicas: replicas }) => {
      if (typeof replicas !== 'number') return undefined;
      return { mode: 'Enabled', ...(replicas === TYPHA_REPLICAS ? {} : { replicas }) };
    },
    override: { kind: 'Deployment', name: TYPHA },
  },
  controlPlaneReplicas: {
    complete: (written, { nodes }) => written ?? Math.max(1, Math.min(REPLICAS, nodes)),
    // Fewer follow from the number of nodes, which may have grown.
    read: ({ replicas }) => (typeof replicas === 'number' && replicas > REPLICAS ? replicas : undefined),
  },
  admissionPolicies: {
    complete: (written = 'Enabled', { servesAdmission }) => (servesAdmission ? written : 'Disabled'),
    read: ({ withoutAdmission }) => (withoutAdmission ? 'Disabled' : 'Enabled'),
  },
  // The operator reads it in the Installation.
  deletionPolicy: { byDefault: 'Orphan' },
};

export const FIELD_ROWS: readonly (readonly [path: string, field: Field<unknown>])[] = Object.entries(FIELDS);

/** Returns what the fields of a spec become in an object: keys of the plugin's configuration, or variables of the agent. */
export function rendered(spec: object, where: 'key' | 'variable'): Readonly<Record<string, unknown>> {
  const values = FIELD_ROWS.flatMap(([path, { [where]: name, encode }]) => {
    const value = valueAt(spec, path);
    return name === undefined || value === undefined
      ? []
      : [[name, encode === undefined ? value : encode(value)] as const];
  });
  return objectOf(values);
}
