import type * as v from 'valibot';
import { ownValue } from '../base/own-value.ts';
import { at } from '../base/problem.ts';
import { isRecord, readEntries } from '../model/read-schema.ts';
import { inspectNetconf, type ReadAs } from './decode.ts';
import { SECTIONS } from './home-of-key.ts';
import { HOST_LOCAL_FIELDS, POOL_FIELDS, TYPE_FIELD } from './ipam-fields.ts';
import type { Netconf } from './netconf.ts';

type Raw = Readonly<Record<string, unknown>>;

/** One value that a call would use, and its origin. */
export interface Setting {
  readonly path: string;
  /** Undefined for an option without value and default. */
  readonly value: unknown;
  readonly from: Origin;
  readonly note?: string;
}

export type Origin =
  /** Set in the configuration at this path. */
  | { readonly kind: 'file'; readonly path: string }
  /** Derived from deprecated options. */
  | { readonly kind: 'deprecated'; readonly paths: readonly string[] }
  | { readonly kind: 'default' }
  | { readonly kind: 'host-name' }
  /** Written by the agent of the node to this file of its state folder. */
  | { readonly kind: 'agent'; readonly file: 'mtu' }
  /** Taken from another setting. */
  | { readonly kind: 'setting'; readonly path: string };

/** The facts about the node that a call adds to the configuration. */
export interface ExplainedNode {
  readonly hostname: string;
  /** The node name under which the agent registered this machine. */
  readonly registered: string | undefined;
  /** The MTU that the agent offers to pods. */
  readonly offeredMtu: number | undefined;
}

/** The effect of leaving these options unset. Other unset options are not listed. */
const UNSET: Readonly<Record<string, string>> = {
  log_file_path: 'no log file: the log goes to standard error alone',
  'policy.type': 'labels and annotations of pods are not read',
  'ipam.ipv4_pools': 'every available pool',
  'ipam.ipv6_pools': 'every available pool',
  'ipam.routes': 'a default route for each address family of the pod',
  mtu: 'left to the kernel',
};

/**
 * Returns every setting that a call with this configuration would use, in the order of the reference page. Uses the same
 * declarations and the same reader as ADD. The configuration must be valid.
 */
export function explainNetconf(
  raw: Raw,
  netconf: Netconf,
  { as, node }: { as: ReadAs; node: ExplainedNode },
): Setting[] {
  const { warnings } = inspectNetconf(raw, as);
  const settings = sectionsFor(netconf)
    .flatMap(([section, fields]) => readSection(raw, section, fields))
    .map((setting) => decided(setting, netconf, { raw, node }))
    .filter((setting) => setting !== undefined);
  const noted = settings.map((setting) => {
    const note = setting.note ?? warnings.find(({ path }) => path === setting.path)?.message;
    return note === undefined ? setting : { ...setting, note };
  });
  const ignored = warnings
    .filter(({ path }) => path !== '' && !settings.some((setting) => setting.path === path))
    .map(({ path, message }): Setting => ({ path, value: undefined, from: { kind: 'file', path }, note: message }));
  return [...noted, ...ignored];
}

function sectionsFor({ ipam }: Netconf): [string, v.ObjectEntries][] {
  const { '': top, ipam: _, ...others } = SECTIONS;
  const own = { 'netplug-ipam': POOL_FIELDS, 'host-local': HOST_LOCAL_FIELDS, other: {} }[ipam.type];
  return [['', top], ['ipam', { ...TYPE_FIELD, ...own }], ...Object.entries(others)];
}

function readSection(raw: Raw, section: string, fields: v.ObjectEntries): Setting[] {
  const inner = section === '' ? raw : ownValue(raw, section);
  const given = isRecord(inner) ? inner : {};
  const { values } = readEntries(fields, given, { path: section, code: 'netconf/invalid', problems: [] });
  return Object.keys(fields)
    .filter((key) => section !== '' || !Object.hasOwn(SECTIONS, key))
    .map((key) => {
      const path = at(section, key);
      // An empty string is the same as leaving the option out.
      const isGiven = Object.hasOwn(given, key) && ownValue(given, key) !== '' && ownValue(values, key) !== undefined;
      return { path, value: ownValue(values, key), from: isGiven ? { kind: 'file', path } : { kind: 'default' } };
    });
}

interface Around {
  readonly raw: Raw;
  readonly node: ExplainedNode;
}

/** Applies the rules that combine the setting with others; undefined when it is not worth a line. */
function decided(setting: Setting, netconf: Netconf, { raw, node }: Around): Setting | undefined {
  const isUnset = setting.from.kind === 'default';
  switch (setting.path) {
    case 'nodename':
      return nodeNameSetting(setting, node);
    case 'kv_endpoints':
      return netconf.datastore.type === 'kvv3' ? endpointsSetting(setting, netconf, raw) : given(setting);
    case 'mtu':
      return netconf.mtu === undefined ? mtuSetting(setting, node) : setting;
    case 'orch.node_name':
      return isUnset ? podCidrNode(setting, netconf, node) : setting;
    case 'ipam.ipv4_pools':
    case 'ipam.ipv6_pools':
      return isUnset && isOff(netconf, setting.path) ? undefined : explained(setting);
    case 'ipam.subnet':
    case 'ipam.ranges':
      return isUnset ? undefined : withPodCidr(setting, netconf, node);
    case 'readiness_gates':
      return isUnset ? undefined : setting;
    default:
      return explained(setting);
  }
}

function explained(setting: Setting): Setting | undefined {
  if (setting.value !== undefined) return setting;
  const note = ownValue(UNSET, setting.path);
  return note === undefined ? undefined : { ...setting, note };
}

function given(setting: Setting): Setting | undefined {
  return setting.from.kind === 'default' ? undefined : setting;
}

function nodeNameSetting(setting: Setting, { hostname, registered }: ExplainedNode): Setting {
  const isSet = setting.from.kind !== 'default';
  const named: Setting = isSet ? setting : { ...setting, value: hostname, from: { kind: 'host-name' } };
  if (registered === undefined || registered === named.value) return named;
  return { ...named, note: `ADD is refused: the agent registered this node as "${registered}"` };
}

function endpointsSetting(setting: Setting, { datastore }: Netconf, raw: Raw): Setting | undefined {
  if (datastore.type !== 'kvv3' || datastore.connection.endpoints.from === 'srv') return undefined;
  const value = datastore.connection.endpoints.urls.join(',');
  if (setting.from.kind === 'file') return { ...setting, value };
  const paths = ['kv_authority', 'kv_scheme'].filter((key) => Object.hasOwn(raw, key) && ownValue(raw, key) !== '');
  return { ...setting, value, from: paths.length === 0 ? { kind: 'default' } : { kind: 'deprecated', paths } };
}

function mtuSetting(setting: Setting, { offeredMtu }: ExplainedNode): Setting {
  if (offeredMtu === undefined) return { ...setting, value: undefined, note: UNSET['mtu'] ?? '' };
  return { ...setting, value: offeredMtu, from: { kind: 'agent', file: 'mtu' } };
}

function podCidrNode(setting: Setting, { ipam, nodename }: Netconf, { hostname }: ExplainedNode): Setting | undefined {
  if (ipam.type !== 'host-local' || ipam.podCidrPaths.length === 0) return undefined;
  return { ...setting, value: nodename ?? hostname, from: { kind: 'setting', path: 'nodename' } };
}

/** Adds the node whose pod CIDR a subnet stands for. */
function withPodCidr(setting: Setting, { ipam, orch, nodename }: Netconf, { hostname }: ExplainedNode): Setting {
  if (ipam.type !== 'host-local' || !ipam.podCidrPaths.some((path) => path.startsWith(setting.path))) return setting;
  const node = orch.nodeName ?? nodename ?? hostname;
  return { ...setting, note: `the pod CIDR of node "${node}", as the orchestrator has it` };
}

function isOff({ ipam }: Netconf, path: string): boolean {
  if (ipam.type !== 'netplug-ipam') return false;
  return path === 'ipam.ipv4_pools' ? !ipam.v4.assign : !ipam.v6.assign;
}
