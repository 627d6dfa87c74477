import {
  at,
  emptyFindings,
  type Findings,
  foundNotAllowed,
  type Problem,
  problemsError,
  showFound,
  sortProblems,
  type Warning,
  withoutPasswords,
} from '../base/problem.ts';
import { isRecord, type PartialOutput, readEntries } from '../model/read-schema.ts';
import type { Datastore, OrchSettings } from './connection.ts';
import { COMMON_FIELDS, MAIN_FIELDS } from './fields.ts';
import { decideIpam } from './ipam.ts';
import { decideConnection } from './kv.ts';
import { CNI_VERSIONS, type CniVersion, type Ipam, type Netconf, type OrchestratorNeed } from './netconf.ts';
import { hasRuntimeRanges, readRuntimeInput } from './runtime-input.ts';
import { checkKeys } from './unknown-keys.ts';
import { adviceOnFound, placeholderIn } from './value-advice.ts';

type Raw = Readonly<Record<string, unknown>>;

/** The program that reads: netplug itself, or its address manager, possibly called by another main plugin. */
export type ReadAs = 'network' | 'ipam';

export interface Inspection {
  /** Undefined when there are problems. */
  readonly netconf?: Netconf;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Warning[];
}

const PLACE = { path: '', code: 'netconf/invalid' } as const;
const SECTIONS = ['orch', 'container_settings', 'policy', 'feature_control'] as const;

/** Decodes a network configuration. @throws netconf/invalid with every problem, or the code that all problems share */
export function decodeNetconf(raw: unknown, as: ReadAs): Netconf {
  const { netconf, problems } = inspectNetconf(raw, as);
  if (netconf === undefined) throw problemsError('the network configuration', problems, 'netconf/invalid');
  return netconf;
}

/** Decodes a network configuration and returns every problem, in the order of the paths. */
export function inspectNetconf(raw: unknown, as: ReadAs): Inspection {
  const findings = emptyFindings();
  const netconf = isRecord(raw) ? readNetconf(raw, as, findings) : undefined;
  if (!isRecord(raw)) {
    findings.problems.push({ path: '', message: foundNotAllowed(raw, 'an object'), code: 'cni/input-undecodable' });
  }
  const { warnings } = findings;
  const problems = sortProblems(findings.problems).map((problem) => withAdvice(problem, raw));
  return netconf === undefined || problems.length > 0 ? { problems, warnings } : { netconf, problems, warnings };
}

/** Adds a suggestion to a problem without a hint. */
function withAdvice(problem: Problem, raw: unknown): Problem {
  const hint = problem.hint ?? adviceOnFound(problem.path, raw);
  return hint === undefined ? problem : { ...problem, hint: withoutPasswords(hint) };
}

function readNetconf(raw: Raw, as: ReadAs, findings: Findings): Netconf | undefined {
  const { problems, warnings } = findings;
  const isOurs = as === 'network' || raw['type'] === 'netplug';
  const common = readEntries(COMMON_FIELDS, raw, { ...PLACE, problems });
  // The fields of another main plugin are not read; ours then have their defaults.
  const main = readEntries(MAIN_FIELDS, isOurs ? raw : { type: 'netplug' }, { ...PLACE, problems });
  checkAllKeys(raw, isOurs, findings);
  if (isOurs) refusePlaceholders(raw, problems);
  if (common.values.name === '') {
    problems.push({ ...PLACE, path: 'name', message: 'found an empty string, allowed is any other string' });
  }
  const cniVersion = readVersion(common.values.cniVersion, problems);
  const ipam = decideIpam(raw['ipam'], { as, hasRuntimeRanges: hasRuntimeRanges(raw) }, findings);
  const datastore = decideDatastore(raw, common.values, findings);
  const runtime = readRuntimeInput(raw, findings);
  refuseSmallMtu(main.values.mtu, ipam, problems);
  if (common.complete === undefined || main.complete === undefined) return undefined;
  if (cniVersion === undefined || ipam === undefined) return undefined;
  const { complete: c } = common;
  const { complete: m } = main;
  const orch = orchSettings(c);
  warnAboutIdleFeatures(m, warnings);
  return {
    name: c.name,
    cniVersion,
    nodename: c.nodename,
    datastore,
    log: {
      level: c.log_level,
      filePath: c.log_file_path,
      fileMaxSizeMb: c.log_file_max_size,
      fileMaxAgeDays: c.log_file_max_age,
      fileMaxCount: c.log_file_max_count,
    },
    ipam,
    allowIpForwarding: m.container_settings.allow_ip_forwarding,
    readinessGates: m.readiness_gates,
    mtu: m.mtu === 0 ? undefined : m.mtu,
    numQueues: m.num_queues,
    includeDefaultRoutes: m.include_default_routes,
    policyType: m.policy.type === 'orch' ? 'orch' : undefined,
    needsOrchestrator: findNeeds({ orch, datastoreType: datastore.type, ipam, policy: m.policy }),
    orch,
    features: {
      ipAddrsNoIpam: m.feature_control.ip_addrs_no_ipam,
      floatingIps: m.feature_control.floating_ips,
    },
    runtime,
    warnings: warnings.map(({ message }) => message),
  };
}

function readVersion(text: string | undefined, problems: Problem[]): CniVersion | undefined {
  const version = CNI_VERSIONS.find((candidate) => candidate === text);
  if (text !== undefined && version === undefined) {
    const message = `found ${showFound(text)}, allowed is one of ${CNI_VERSIONS.map((each) => `"${each}"`).join(', ')}`;
    problems.push({ path: 'cniVersion', message, code: 'cni/version-unsupported' });
  }
  return version;
}

function decideDatastore(raw: Raw, values: PartialOutput<typeof COMMON_FIELDS>, findings: Findings): Datastore {
  if (values.datastore_type !== 'orch') return { type: 'kvv3', connection: decideConnection(values, findings) };
  for (const key of Object.keys(raw)) {
    if (!key.startsWith('kv_')) continue;
    findings.warnings.push({ path: key, message: `${key} has no effect with "datastore_type": "orch"` });
  }
  return { type: 'orch', orch: orchSettings(values) };
}

function orchSettings({ orch }: PartialOutput<typeof COMMON_FIELDS>): OrchSettings {
  return { orchconfig: orch?.orchconfig, apiRoot: orch?.orch_api_root, nodeName: orch?.node_name };
}

function warnAboutIdleFeatures(
  { policy, feature_control: features }: PartialOutput<typeof MAIN_FIELDS>,
  warnings: Warning[],
): void {
  if (policy?.type === 'orch') return;
  for (const name of ['ip_addrs_no_ipam', 'floating_ips'] as const) {
    if (features?.[name] !== true) continue;
    const path = `feature_control.${name}`;
    warnings.push({ path, message: `${path} has no effect without policy.type "orch": annotations are not read` });
  }
}

function checkAllKeys(raw: Raw, isOurs: boolean, findings: Findings): void {
  const keys = [...Object.keys(COMMON_FIELDS), ...Object.keys(MAIN_FIELDS), 'ipam'];
  checkKeys(raw, { keys, path: '', strictness: isOurs ? 'own-keys-only' : 'with-foreign-keys' }, findings);
  const sections = { ...COMMON_FIELDS, ...MAIN_FIELDS };
  for (const path of isOurs ? SECTIONS : (['orch'] as const)) {
    const section = raw[path];
    if (!isRecord(section)) continue;
    checkKeys(
      section,
      { keys: Object.keys(sections[path].pipe[0].wrapped.entries), path, strictness: 'own-keys-only' },
      findings,
    );
  }
}

/** The smallest MTU of a link with IPv6 (RFC 8200). */
const SMALLEST_V6_MTU = 1280;

function refuseSmallMtu(mtu: number | undefined, ipam: Ipam | undefined, problems: Problem[]): void {
  if (mtu === undefined || mtu === 0 || mtu >= SMALLEST_V6_MTU) return;
  if (ipam?.type !== 'netplug-ipam' || !ipam.v6.assign) return;
  const message = foundNotAllowed(mtu, `at least ${String(SMALLEST_V6_MTU)} because IPv6 is assigned`);
  problems.push({ ...PLACE, path: 'mtu', message });
}

interface Decided {
  readonly orch: OrchSettings;
  readonly datastoreType: 'kvv3' | 'orch';
  readonly ipam: Ipam;
  readonly policy: { readonly type?: string | undefined };
}

/** Returns the settings that need the API of the orchestrator when no access is configured, each with the reason. */
function findNeeds({ orch, datastoreType, ipam, policy }: Decided): OrchestratorNeed[] {
  const needs: OrchestratorNeed[] = [];
  if (orch.orchconfig !== undefined || orch.apiRoot !== undefined) return needs;
  if (datastoreType === 'orch') {
    needs.push({ path: 'datastore_type', reason: 'records are kept in the API of the orchestrator' });
  }
  if (policy.type === 'orch') {
    needs.push({ path: 'policy.type', reason: 'labels and annotations of pods come from the orchestrator' });
  }
  if (ipam.type === 'host-local') {
    for (const path of ipam.podCidrPaths) needs.push({ path, reason: 'pod CIDRs of nodes come from the orchestrator' });
  }
  return needs;
}

/** Names and paths, in which a placeholder would be used literally. */
const FILLED_IN = /^(nodename|log_file_path|kv_\w+_file|orch\.\w+)$/;

/** Refuses unfilled placeholders of templates in options that are names or paths. */
function refusePlaceholders(raw: Readonly<Record<string, unknown>>, problems: Problem[], path = ''): void {
  for (const [key, value] of Object.entries(raw)) {
    const place = at(path, key);
    if (path === '' && isRecord(value)) refusePlaceholders(value, problems, place);
    if (!FILLED_IN.test(place) || typeof value !== 'string' || placeholderIn(value) === undefined) continue;
    if (problems.some((problem) => problem.path === place)) continue;
    problems.push({ path: place, message: foundNotAllowed(value, 'no placeholder'), code: 'netconf/invalid' });
  }
}
