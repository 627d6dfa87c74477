import * as v from 'valibot';
import { field, listOf, objectWith, oneOf, optionalField, type SpecOf } from './field.ts';
import { foreignRecord } from '../base/foreign-record.ts';
import { type Family, FAMILIES } from '../net/address.ts';
import { type Cidr, cidrsOverlap, parseCidr, tryReadCidr } from '../net/cidr.ts';
import { BLOCK_SIZES } from './ip-pool.ts';
import {
  conditionStatus,
  type ConditionType,
  INSTALLATION_STATUS_FIELDS,
  readInstallationStatus,
} from './installation-status.ts';
import { type Column, column, jointRules, type KindDeclaration, nameColumn, type Refuse, wide } from './kind-info.ts';
import { LABELS } from './metadata.ts';
import type { PartialOutput } from './read-schema.ts';
import type { Resource } from './resource.ts';
import { runtimeFolderFault } from './runtime-folder.ts';
import { CidrText, SelectorText, Switch, wholeNumber, TrueOrFalse } from './spec-types.ts';

export const INSTALLATION_NAME = 'default';
/** Annotation, with any value, of an Installation whose operator leaves it to others when an agent is replaced by a new one. */
export const HOLD_AGENTS = 'netplug.io/hold-agents';

/** Finalizer of the Installation, present only while its deletion has to wait for the operator. */
export const OPERATOR_FINALIZER = 'netplug.io/operator';

const ENCAPSULATIONS = ['VXLAN', 'VXLANCrossSubnet', 'IPIP', 'IPIPCrossSubnet', 'None'] as const;
export type PoolEncapsulation = (typeof ENCAPSULATIONS)[number];
/** Severities of the log of the plugin. */
export const LOG_SEVERITIES = ['Error', 'Warning', 'Info', 'Debug'] as const;

const DETECTION =
  'an address, "first-found", "can-reach=<address>", "interface=<regex>", "skip-interface=<regex>", "cidr=<cidr>", "orch-internal-ip" or "none"';

/** Objects of other programs, such as those of Kubernetes, which the API server validates when they are applied. */
const ANY_OBJECT = foreignRecord(v.string('a text'), v.unknown(), 'an object');
const FOLDER = v.pipe(
  v.string('a folder'),
  v.regex(/^(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$/, 'an absolute path, such as "/opt/cni/bin"'),
);
const DEFAULT_FOLDERS = { binDir: '/opt/cni/bin', confDir: '/etc/cni/net.d' } as const;
/** Plugins of the chain that have fields of their own, and netplug. */
const OWN_PLUGINS = ['netplug', 'portmap', 'bandwidth'];

const Ipam = objectWith('type', {
  type: optionalField(oneOf(['netplug-ipam', 'HostLocal']), 'Address manager; "netplug-ipam" unless set.'),
});

const Cni = objectWith('type and ipam', {
  type: optionalField(oneOf(['netplug']), 'The plugin; "netplug" unless set.'),
  ipam: optionalField(Ipam, 'Where addresses of pods come from.'),
  chainedPlugins: optionalField(
    listOf(ANY_OBJECT, 'an array of objects with type'),
    'Further plugins, called behind netplug, portmap and bandwidth: their entries in the network configuration list. They may work, but are not supported. Their programs must be on every node. None unless set.',
  ),
  binDir: optionalField(
    FOLDER,
    `Folder of the nodes in which the runtime finds plugins; "${DEFAULT_FOLDERS.binDir}" unless set.`,
  ),
  confDir: optionalField(
    FOLDER,
    `Folder of the nodes in which the runtime finds network configurations; "${DEFAULT_FOLDERS.confDir}" unless set.`,
  ),
});

const Pool = objectWith('cidr', {
  cidr: field(CidrText, 'Range of the pool.'),
  name: optionalField(v.string('a name'), 'Name of the pool; "default-ipv4" or "default-ipv6" unless set.'),
  encapsulation: optionalField(
    oneOf(ENCAPSULATIONS),
    'How packets travel between nodes; "VXLAN" unless set. "None" needs BGP.',
  ),
  natOutgoing: optionalField(
    Switch,
    'Translation of the source outside all pools; "Enabled" for IPv4, "Disabled" for IPv6 unless set.',
  ),
  nodeSelector: optionalField(SelectorText, 'Nodes that may use the pool; `all()` unless set.'),
  blockSize: optionalField(wholeNumber(23, 128), 'Prefix length of blocks; 26 for IPv4, 122 for IPv6 unless set.'),
  disableBGPExport: optionalField(TrueOrFalse, 'Keeps routes to the pool out of BGP.'),
  disabled: optionalField(
    TrueOrFalse,
    'No new addresses are assigned from the pool; assigned addresses keep working. Off unless set.',
  ),
});
export type InstallationPool = v.InferOutput<typeof Pool>;

const Network = objectWith('ipPools', {
  ipPools: optionalField(
    listOf(Pool, 'an array of objects with cidr'),
    "Pools that the operator creates and keeps; other pools are left alone. An empty list creates none. Without the field, the operator creates one pool that overlaps nothing it knows. With `HostLocal`, a pool of an address family makes addresses of that family come from the node's pod CIDR.",
  ),
  bgp: optionalField(
    Switch,
    'Whether BIRD runs on the nodes; "Enabled" unless set if a pool has no encapsulation, else "Disabled".',
  ),
  mtu: optionalField(wholeNumber(1280, 65_535, 'bytes'), 'MTU of pods; detected unless set.'),
  hostPorts: optionalField(Switch, 'Whether host ports of pods work (plugin portmap); "Enabled" unless set.'),
  bandwidth: optionalField(Switch, 'Whether bandwidth annotations work (plugin bandwidth); "Enabled" unless set.'),
  bandwidthBurstMs: optionalField(
    wholeNumber(1, 1000, 'milliseconds'),
    'Milliseconds of its rate that a pod with a bandwidth annotation sends or receives at once; 100 unless set.',
  ),
  policy: optionalField(Switch, 'Whether policies and annotations of pods apply; "Enabled" unless set.'),
  containerIPForwarding: optionalField(Switch, 'IP forwarding inside pods; "Disabled" unless set.'),
  floatingIPs: optionalField(
    Switch,
    'Whether the annotation `cni.netplug/floatingIPs` applies; "Disabled" unless set. Only namespaces with the label `netplug/allow-address-annotations` and users with the role `netplug-use-floating-ips` may set it while `admissionPolicies` is "Enabled".',
  ),
  ipAddrsNoIpam: optionalField(
    Switch,
    'Whether the annotation `cni.netplug/ipAddrsNoIpam` applies; "Disabled" unless set. Only namespaces with the label `netplug/allow-address-annotations` and users with the role `netplug-use-ip-addrs-no-ipam` may set it while `admissionPolicies` is "Enabled".',
  ),
  nodeAddressDetectionV4: optionalField(
    v.string(DETECTION),
    "How a node's own IPv4 address is found; `first-found` unless set.",
  ),
  nodeAddressDetectionV6: optionalField(
    v.string(DETECTION),
    "How a node's own IPv6 address is found; `first-found` unless set.",
  ),
});

const Logging = objectWith('cni', {
  cni: optionalField(
    objectWith('logSeverity', {
      logSeverity: optionalField(oneOf(LOG_SEVERITIES), 'Least severity of the log; "Info" unless set.'),
      logFileMaxSizeMb: optionalField(
        wholeNumber(1, 100_000, 'MB'),
        'Size at which a file is rotated; 100 unless set.',
      ),
      logFileMaxAgeDays: optionalField(wholeNumber(1, 10_000, 'days'), 'Age of removed files; 30 unless set.'),
      logFileMaxCount: optionalField(wholeNumber(1, 10_000), 'Rotated files that are kept; 10 unless set.'),
    }),
    'Log of the plugin on each node.',
  ),
});

const TEXTS = foreignRecord(v.string('a text'), v.string('a text'), 'an object of strings');
const TOLERATIONS = listOf(ANY_OBJECT, 'an array of tolerations');
const OVERRIDE_FIELDS = {
  resources: optionalField(ANY_OBJECT, 'Requests and limits of the main container, as Kubernetes has them.'),
  nodeSelector: optionalField(LABELS, 'Labels of the nodes that the pods may run on.'),
  tolerations: optionalField(TOLERATIONS, 'Tolerations in place of those of netplug, which tolerate every taint.'),
  annotations: optionalField(TEXTS, 'Further annotations of the pods.'),
  labels: optionalField(LABELS, 'Further labels of the pods.'),
  env: optionalField(TEXTS, 'Further environment variables of the main container, which take precedence.'),
};
const Override = objectWith('resources', OVERRIDE_FIELDS);
export type ComponentOverride = v.InferOutput<typeof Override>;

const Typha = objectWith('mode', {
  mode: optionalField(
    Switch,
    'Whether agents get what every node follows from the servers of `netplug-typha`, in place of the API server; "Disabled" unless set. It needs the datastore of the API.',
  ),
  replicas: optionalField(
    wholeNumber(1, 100),
    'Number of servers; it follows the number of nodes unless set. There are never more than nodes that can run one.',
  ),
  ...OVERRIDE_FIELDS,
  tolerations: optionalField(
    TOLERATIONS,
    'Tolerations in place of those of netplug, with which servers start before the network of a node works.',
  ),
});

const INSTALLATION_FIELDS = {
  cni: optionalField(Cni, 'The plugin on the nodes.'),
  calicoNetwork: optionalField(Network, 'The network of the pods.'),
  logging: optionalField(Logging, 'Logs.'),
  registry: optionalField(
    v.pipe(
      v.string('host and path of a registry'),
      v.regex(
        /^[a-z0-9.-]+(:\d+)?(\/[a-z0-9._/-]+)?\/?$/,
        'host and path of a registry, such as "registry.example:5000/netplug"',
      ),
    ),
    'Registry and path of the images; "netplug.io" unless set.',
  ),
  imagePullSecrets: optionalField(
    listOf(v.string('the name of a Secret'), 'an array of names'),
    'Secrets in the namespace of netplug with credentials of the registry.',
  ),
  node: optionalField(Override, 'Pods of the DaemonSet `netplug-node`.'),
  controllers: optionalField(Override, 'Pods of the Deployment `netplug-orch-controllers`.'),
  typha: optionalField(Typha, 'Fan-out: the Deployment `netplug-typha`, and whether agents use it.'),
  controlPlaneReplicas: optionalField(
    wholeNumber(1, 10),
    'Replicas of the controllers; 2 unless set, 1 on a cluster of one node.',
  ),
  admissionPolicies: optionalField(
    Switch,
    'Admission policies of the API server: which annotations users may set on pods, and what the plugin and the agent of a node may write; "Enabled" unless set.',
  ),
  deletionPolicy: optionalField(
    oneOf(['Orphan', 'Remove']),
    'What the deletion of the installation does: "Orphan", the default, leaves the network of the nodes running, "Remove" takes it down.',
  ),
};

export type InstallationSpec = SpecOf<typeof INSTALLATION_FIELDS>;
export type Installation = Resource<'Installation', InstallationSpec> & {
  /** Status as it is stored; `readInstallationStatus` reads it. */
  readonly status?: unknown;
};

export const INSTALLATION: KindDeclaration<Installation> = {
  plural: 'installations',
  shortNames: ['inst'],
  scope: 'cluster',
  about: 'The installation that the operator creates.',
  enforced: true,
  writtenBy: 'user',
  names: 'default',
  columns: [
    nameColumn(),
    column('CNI', 'spec.cni.type', ({ spec }) => spec.cni?.type ?? ''),
    column('IPAM', 'spec.cni.ipam.type', ({ spec }) => spec.cni?.ipam?.type ?? ''),
    conditionColumn('Available'),
    conditionColumn('Progressing'),
    conditionColumn('Degraded'),
    wide('SUMMARY', 'status.summary', ({ status }) => readInstallationStatus(status).summary ?? ''),
  ],
  fields: INSTALLATION_FIELDS,
  status: INSTALLATION_STATUS_FIELDS,
  check: jointRules(INSTALLATION_FIELDS, checkInstallation),
  rules: [
    'Pools do not overlap and differ in name; with `HostLocal` there is at most one of each address family.',
    '`IPIP` is for IPv4 pools only. `None` needs `bgp: Enabled`. With `HostLocal`, encapsulation and BGP belong to another program and are not set.',
    'Entries of `chainedPlugins` have a `type`, which is neither netplug nor portmap nor bandwidth.',
    '`floatingIPs` and `ipAddrsNoIpam` need `policy: Enabled`, because annotations of pods are not read without it.',
    '`binDir` and `confDir` differ, and are no folders of the system or of netplug itself, which the pod of the agent has as well.',
    'blockSize is from 23 to 32 for IPv4 and from 119 to 128 for IPv6, and a block fits into the pool.',
  ],
  example: {
    metadata: { name: INSTALLATION_NAME },
    spec: {
      cni: { type: 'netplug', ipam: { type: 'HostLocal' } },
      calicoNetwork: { ipPools: [{ cidr: '10.244.0.0/16' }, { cidr: '2001:db8:244::/48' }] },
    },
  },
};

function conditionColumn(type: ConditionType): Column<Installation> {
  const path = `status.conditions[?(@.type=="${type}")].status`;
  return column(type.toUpperCase(), path, ({ status }) => conditionStatus(status, type));
}

type PartialSpec = PartialOutput<typeof INSTALLATION_FIELDS>;

function checkInstallation({ cni, calicoNetwork }: PartialSpec, refuse: Refuse): void {
  const listed = calicoNetwork?.ipPools ?? [];
  const isHostLocal = cni?.ipam?.type === 'HostLocal';
  const pools = listed.map(({ cidr }) => parseCidr(cidr));
  for (const [index, pool] of pools.entries()) {
    const other = pools.slice(0, index).findIndex((earlier) => cidrsOverlap(earlier, pool));
    const at = `calicoNetwork.ipPools[${String(index)}]`;
    if (other !== -1) refuse(`${at}.cidr`, `overlaps calicoNetwork.ipPools[${String(other)}].cidr`);
    const name = poolName(listed, index);
    const twin = listed.slice(0, index).findIndex((_, earlier) => poolName(listed, earlier) === name);
    if (twin !== -1) refuse(`${at}.name`, `"${name}" is also the name of calicoNetwork.ipPools[${String(twin)}]`);
    checkPool(
      { entry: listed[index] ?? { cidr: '' }, pool, at, bgp: isHostLocal ? undefined : calicoNetwork?.bgp },
      refuse,
    );
  }
  checkSwitches(calicoNetwork, refuse);
  checkChained(cni?.chainedPlugins ?? [], refuse);
  checkFolders(cni, refuse);
  if (!isHostLocal) return;
  if (calicoNetwork?.bgp === 'Enabled')
    refuse('calicoNetwork.bgp', 'found "Enabled", allowed is "Disabled" with "HostLocal"');
  for (const [index, { encapsulation }] of listed.entries()) {
    if (encapsulation !== undefined && encapsulation !== 'None')
      refuse(
        `calicoNetwork.ipPools[${String(index)}].encapsulation`,
        `found "${encapsulation}", allowed is "None" with "HostLocal"`,
      );
  }
  for (const family of FAMILIES) {
    const isOne = pools.filter(({ base }) => base.family === family).length <= 1;
    if (!isOne)
      refuse('calicoNetwork.ipPools', `has several IPv${String(family)} pools; with "HostLocal" allowed is one`);
  }
}

function checkChained(plugins: readonly Readonly<Record<string, unknown>>[], refuse: Refuse): void {
  for (const [index, { type }] of plugins.entries()) {
    const at = `cni.chainedPlugins[${String(index)}].type`;
    if (typeof type !== 'string' || !/^[A-Za-z0-9_-][\w.-]*$/.test(type))
      refuse(at, 'allowed is the name of a program');
    else if (OWN_PLUGINS.includes(type))
      refuse(
        at,
        `found "${type}", which netplug chains itself: see calicoNetwork.hostPorts and calicoNetwork.bandwidth`,
      );
  }
}

function checkFolders(cni: PartialSpec['cni'], refuse: Refuse): void {
  for (const name of ['binDir', 'confDir'] as const) {
    const path = cni?.[name];
    const fault = path === undefined ? undefined : runtimeFolderFault(path);
    if (fault !== undefined) refuse(`cni.${name}`, fault);
  }
  const { binDir = DEFAULT_FOLDERS.binDir, confDir = DEFAULT_FOLDERS.confDir } = cni ?? {};
  if (binDir === confDir)
    refuse('cni.confDir', `found "${confDir}", which is also cni.binDir; allowed is another folder`);
}

function checkSwitches(network: PartialSpec['calicoNetwork'], refuse: Refuse): void {
  if (network?.policy !== 'Disabled') return;
  for (const name of ['floatingIPs', 'ipAddrsNoIpam'] as const) {
    if (network[name] === 'Enabled')
      refuse(`calicoNetwork.${name}`, 'found "Enabled", which needs calicoNetwork.policy "Enabled"');
  }
}

function checkPool(
  {
    entry: { encapsulation, blockSize },
    pool,
    at,
    bgp,
  }: {
    readonly entry: InstallationPool;
    readonly pool: Cidr;
    readonly at: string;
    readonly bgp: 'Enabled' | 'Disabled' | undefined;
  },
  refuse: Refuse,
): void {
  const { family } = pool.base;
  if (family === 6 && encapsulation?.startsWith('IPIP') === true)
    refuse(`${at}.encapsulation`, `found "${encapsulation}", allowed for IPv6 are "VXLAN", "VXLANCrossSubnet", "None"`);
  if (encapsulation === 'None' && bgp === 'Disabled')
    refuse(`${at}.encapsulation`, 'found "None", which needs calicoNetwork.bgp "Enabled"');
  if (blockSize === undefined) return;
  const { smallest, largest } = BLOCK_SIZES[family];
  if (blockSize < smallest || blockSize > largest || blockSize < pool.prefixBits)
    refuse(
      `${at}.blockSize`,
      `found ${String(blockSize)}, allowed is ${String(Math.max(smallest, pool.prefixBits))} to ${String(largest)} for this pool`,
    );
}

/** Returns the name of the pool at that place of the list: its own, else `default-ipv4` for the first, `default-ipv4-2` for the next. */
export function poolName(pools: readonly InstallationPool[], index: number): string {
  const { name, cidr = '' } = pools[index] ?? {};
  if (name !== undefined) return name;
  const family = familyOf(cidr);
  const place = pools
    .slice(0, index)
    .filter((pool) => pool.name === undefined && familyOf(pool.cidr) === family).length;
  return `default-ipv${String(family)}${place === 0 ? '' : `-${String(place + 1)}`}`;
}

function familyOf(cidr: string): Family {
  return tryReadCidr(cidr)?.cidr.base.family ?? 4;
}
