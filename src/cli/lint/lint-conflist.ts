import { didYouMean, nearMiss } from '../../base/near-miss.ts';
import { at, emptyFindings, type Findings, type Problem, showFound } from '../../base/problem.ts';
import { isRecord } from '../../model/read-schema.ts';
import { inspectNetconf } from '../../netconf/decode.ts';
import { CNI_VERSIONS } from '../../netconf/netconf.ts';
import { CHAINED_TYPES, lintChained } from './lint-chain.ts';

type Raw = Readonly<Record<string, unknown>>;

export interface Remark {
  readonly severity: 'error' | 'warning';
  readonly problem: Problem;
}

const FLAGS = ['disableCheck', 'disableGC', 'loadOnlyInlinedPlugins'];
const LIST_KEYS = ['name', 'cniVersion', 'cniVersions', 'plugins', ...FLAGS];
/** Lists came with this version of the CNI specification. */
const FIRST_WITH_CHAINS = '0.3.0';
const CODE = 'netconf/invalid';

/** Reads a network configuration, or a list of them, as the plugins would, and says everything about it. */
export function lintNetconf(raw: Raw): readonly Remark[] {
  return Object.hasOwn(raw, 'plugins') ? lintList(raw) : lintPlugin(raw, '');
}

function lintList(list: Raw): readonly Remark[] {
  const findings = emptyFindings();
  checkListKeys(list, findings);
  const plugins = list['plugins'];
  const remarks: Remark[] = [];
  if (!Array.isArray(plugins) || plugins.length === 0) {
    findings.problems.push({
      path: 'plugins',
      message: `found ${showFound(plugins)}, allowed is an array of plugins`,
      code: CODE,
    });
  } else {
    for (const [index, entry] of plugins.entries()) {
      const path = at('plugins', index);
      if (isRecord(entry)) remarks.push(...lintEntry(list, entry, path));
      else findings.problems.push({ path, message: `found ${showFound(entry)}, allowed is an object`, code: CODE });
    }
    checkOrder(list, plugins, findings);
  }
  return [...asRemarks(findings, ''), ...withoutRepeats(remarks)];
}

function lintEntry(list: Raw, entry: Raw, path: string): readonly Remark[] {
  const { type } = entry;
  if (typeof type !== 'string' || type === '') {
    const message = `found ${showFound(type)}, allowed is the name of a plugin`;
    return [{ severity: 'error', problem: { path: at(path, 'type'), message, code: CODE } }];
  }
  if (isOurs(entry)) {
    // The runtime passes name and version of the list into every plugin.
    const { name, cniVersion } = list;
    const inherited = { ...(name === undefined ? {} : { name }), ...(cniVersion === undefined ? {} : { cniVersion }) };
    return lintPlugin({ ...entry, ...inherited }, path);
  }
  const findings = emptyFindings();
  lintChained(entry, findings);
  const meant = CHAINED_TYPES.includes(type) ? undefined : nearMiss(type, ['netplug', ...CHAINED_TYPES]);
  if (meant !== undefined) findings.warnings.push(`type "${type}": ${didYouMean(meant)}`);
  return asRemarks(findings, path);
}

function lintPlugin(raw: Raw, path: string): readonly Remark[] {
  const { type } = raw;
  const isUnderOther = typeof type === 'string' && type !== 'netplug' && usesOurIpam(raw);
  const { netconf, problems, warnings } = inspectNetconf(raw, isUnderOther ? 'ipam' : 'network');
  const needs = (netconf?.needsOrchestrator ?? []).map((need): Problem => ({
    path: need.path,
    message: `the API of the orchestrator is needed, and orch gives no access to it: ${need.reason}`,
    hint: 'set orch.orchconfig or orch.orch_api_root',
    code: 'netconf/needs-orchestrator',
  }));
  return asRemarks({ problems: [...problems, ...needs], warnings: [...warnings] }, path);
}

function checkListKeys(list: Raw, { problems, warnings }: Findings): void {
  for (const key of Object.keys(list)) {
    if (LIST_KEYS.includes(key) || key.startsWith('cni.dev/')) continue;
    const meant = nearMiss(key, LIST_KEYS);
    if (meant === undefined) warnings.push(`Unknown key ${key} of the list is ignored`);
    else problems.push({ path: at('', key), message: 'is not a key of a list', hint: didYouMean(meant), code: CODE });
  }
  for (const key of FLAGS) {
    const value = list[key];
    // Runtimes also take the words, as their library does.
    if (value === undefined || typeof value === 'boolean' || value === 'true' || value === 'false') continue;
    problems.push({ path: key, message: `found ${showFound(value)}, allowed is true or false`, code: CODE });
  }
  const versions = list['cniVersions'];
  const isVersionList = Array.isArray(versions) && versions.every((version) => typeof version === 'string');
  if (versions !== undefined && !isVersionList) {
    problems.push({
      path: 'cniVersions',
      message: `found ${showFound(versions)}, allowed is an array of versions`,
      code: CODE,
    });
  }
}

function checkOrder(list: Raw, plugins: readonly unknown[], { problems, warnings }: Findings): void {
  const ours = plugins.findIndex((entry) => isRecord(entry) && isOurs(entry));
  const main = plugins.findIndex((entry) => isRecord(entry) && entry['type'] === 'netplug');
  if (ours === -1) warnings.push('No plugin of the list is netplug or uses netplug-ipam');
  if (main > 0) {
    const message = 'netplug makes the interface the others work on, and must come first';
    problems.push({ path: at('plugins', main, 'type'), message, code: CODE });
  }
  const version = list['cniVersion'] ?? '0.1.0';
  const known = CNI_VERSIONS.findIndex((candidate) => candidate === version);
  if (known === -1 || known >= CNI_VERSIONS.indexOf(FIRST_WITH_CHAINS)) return;
  const message = `found ${showFound(list['cniVersion'])}, allowed is "${FIRST_WITH_CHAINS}" or later: chaining needs it`;
  problems.push({ path: 'cniVersion', message, code: CODE });
}

function isOurs(entry: Raw): boolean {
  return entry['type'] === 'netplug' || usesOurIpam(entry);
}

function usesOurIpam({ ipam }: Raw): boolean {
  return isRecord(ipam) && ipam['type'] === 'netplug-ipam';
}

/** What the runtime copies from the list into an entry is wrong in the list, not in the entry. */
function asRemarks({ problems, warnings }: Findings, start: string): Remark[] {
  const placed = (path: string): string => {
    const isInherited = start !== '' && (path === 'name' || path === 'cniVersion');
    return isInherited ? path : [start, path].filter((part) => part !== '').join('.');
  };
  return [
    ...problems.map((problem): Remark => ({ severity: 'error', problem: { ...problem, path: placed(problem.path) } })),
    ...warnings.map((message): Remark => ({ severity: 'warning', problem: { path: start, message, code: CODE } })),
  ];
}

/** Two of our entries in one list inherit the same mistakes. */
function withoutRepeats(remarks: readonly Remark[]): readonly Remark[] {
  return [
    ...new Map(
      remarks.map((remark) => [`${remark.severity}\n${remark.problem.path}\n${remark.problem.message}`, remark]),
    ).values(),
  ];
}
