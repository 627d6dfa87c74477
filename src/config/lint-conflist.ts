import { ownValue } from '../base/own-value.ts';
import { didYouMean, nearMiss, onlyNearMiss } from '../base/near-miss.ts';
import { at, emptyFindings, type Findings, type Fix, foundNotAllowed, type Problem } from '../base/problem.ts';
import { isRecord } from '../model/read-schema.ts';
import { inspectNetconf } from './decode.ts';
import { COMMON_FIELDS, MAIN_FIELDS } from './fields.ts';
import { CNI_VERSIONS } from './netconf.ts';
import { CHAINED_TYPES, lintChained } from './lint-chain.ts';
import { type Remark, remarksOf } from './remark.ts';

type Raw = Readonly<Record<string, unknown>>;

/** Flags of a list by which administrators of a node keep runtimes from calling a verb. */
export const VERB_FLAGS: readonly string[] = ['disableCheck', 'disableGC'];
const FLAGS = [...VERB_FLAGS, 'loadOnlyInlinedPlugins'];
/** Keys of a list that the CNI specification has. */
export const LIST_KEYS: readonly string[] = ['name', 'cniVersion', 'cniVersions', 'plugins', ...FLAGS];
/** Keys of netplug that belong into an entry. */
const ENTRY_KEYS = [...Object.keys(COMMON_FIELDS), ...Object.keys(MAIN_FIELDS), 'ipam'].filter(
  (key) => !LIST_KEYS.includes(key),
);
/** The first version of the CNI specification with lists. */
const FIRST_WITH_CHAINS = '0.3.0';
const CODE = 'netconf/invalid';

/** Checks a network configuration or a list as the plugins decode it. */
export function lintNetconf(raw: Raw): readonly Remark[] {
  return isList(raw) ? lintList(raw) : lintPlugin(raw, '');
}

/** Returns the remark on a misspelt key "plugins", which hides all other mistakes of the list. */
export function slipInPlugins(raw: Raw): readonly Remark[] | undefined {
  if (isList(raw)) return undefined;
  const path = Object.keys(raw).find(
    (key) => nearMiss(key, ['plugins']) !== undefined && Array.isArray(ownValue(raw, key)),
  );
  if (path === undefined) return undefined;
  const fix: Fix = [{ kind: 'rename', path, to: 'plugins' }];
  const message = 'is no key of a network configuration';
  return [{ severity: 'error', problem: { path, message, hint: didYouMean('plugins'), code: CODE, fix } }];
}

export function isList(raw: Raw): boolean {
  return Object.hasOwn(raw, 'plugins');
}

function lintList(list: Raw): readonly Remark[] {
  const findings = emptyFindings();
  checkListKeys(list, findings);
  const plugins = list['plugins'];
  const remarks: Remark[] = [];
  if (!Array.isArray(plugins) || plugins.length === 0) {
    const hint = isRecord(plugins) ? { hint: 'write [{ … }], with brackets around the plugin' } : {};
    const message = foundNotAllowed(plugins, 'an array of at least one plugin');
    findings.problems.push({ path: 'plugins', message, code: CODE, ...hint });
  } else {
    for (const [index, entry] of plugins.entries()) {
      const path = at('plugins', index);
      if (isRecord(entry)) remarks.push(...lintEntry(list, entry, path));
      else {
        const hint = Array.isArray(entry) ? { hint: 'write the plugins without [ ] around them' } : {};
        findings.problems.push({ path, message: foundNotAllowed(entry, 'an object'), code: CODE, ...hint });
      }
    }
    checkOrder(list, plugins, findings);
  }
  return [...asRemarks(findings, ''), ...withoutRepeats(remarks)];
}

function lintEntry(list: Raw, entry: Raw, path: string): readonly Remark[] {
  const { type } = entry;
  if (typeof type !== 'string' || type === '') {
    const message = foundNotAllowed(type, 'the name of a plugin');
    return [{ severity: 'error', problem: { path: at(path, 'type'), message, code: CODE } }];
  }
  if (isNetplugEntry(entry)) {
    // The runtime passes name and version of the list to each plugin.
    const { name, cniVersion } = list;
    const inherited = { ...(name === undefined ? {} : { name }), ...(cniVersion === undefined ? {} : { cniVersion }) };
    return [...slipInType(type, path), ...lintPlugin({ ...entry, ...inherited }, path)];
  }
  const findings = emptyFindings();
  lintChained(entry, findings);
  return [...asRemarks(findings, path), ...slipInType(type, path)];
}

/** Warns about a type that looks misspelt; a plugin of that name may exist. */
function slipInType(type: string, path: string): readonly Remark[] {
  const types = ['netplug', ...CHAINED_TYPES];
  const meant = types.includes(type) ? undefined : nearMiss(type, types);
  if (meant === undefined) return [];
  const warnings = [{ path: 'type', message: `type "${type}": ${didYouMean(meant)}` }];
  return asRemarks({ problems: [], warnings }, path);
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
    if (ENTRY_KEYS.includes(key)) {
      const hint = 'move it into the entry of netplug in "plugins"';
      problems.push({ path: key, message: 'has no effect beside "plugins"', hint, code: CODE });
      continue;
    }
    const meant = nearMiss(key, LIST_KEYS);
    if (meant === undefined) warnings.push({ path: at('', key), message: `Unknown key ${key} of the list is ignored` });
    else {
      const path = at('', key);
      const isCertain = onlyNearMiss(key, LIST_KEYS) !== undefined && !Object.hasOwn(list, meant);
      const fix: Fix = [{ kind: 'rename', path, to: meant }];
      const hint = didYouMean(meant);
      problems.push({ path, message: 'is not a key of a list', hint, code: CODE, ...(isCertain ? { fix } : {}) });
    }
  }
  for (const key of FLAGS) {
    const value = ownValue(list, key);
    if (value === undefined || isFlag(value)) continue;
    problems.push({ path: key, message: foundNotAllowed(value, 'true or false'), code: CODE });
  }
  const versions = list['cniVersions'];
  const isVersionList = Array.isArray(versions) && versions.every((version) => typeof version === 'string');
  if (versions !== undefined && !isVersionList) {
    problems.push({ path: 'cniVersions', message: foundNotAllowed(versions, 'an array of versions'), code: CODE });
  }
}

/** Runtimes also accept the strings, as libcni does. */
export function isFlag(value: unknown): boolean {
  return typeof value === 'boolean' || value === 'true' || value === 'false';
}

function checkOrder(list: Raw, plugins: readonly unknown[], { problems, warnings }: Findings): void {
  const ours = plugins.findIndex((entry) => isRecord(entry) && isNetplugEntry(entry));
  const main = plugins.findIndex((entry) => isRecord(entry) && entry['type'] === 'netplug');
  if (ours === -1) warnings.push({ path: 'plugins', message: 'No plugin of the list is netplug or uses netplug-ipam' });
  if (main > 0) {
    const message = 'netplug must come first: it creates the interface that chained plugins change';
    problems.push({ path: at('plugins', main, 'type'), message, code: CODE });
  }
  const version = list['cniVersion'] ?? '0.1.0';
  const known = CNI_VERSIONS.findIndex((candidate) => candidate === version);
  if (known === -1 || known >= CNI_VERSIONS.indexOf(FIRST_WITH_CHAINS)) return;
  const message = foundNotAllowed(list['cniVersion'], `"${FIRST_WITH_CHAINS}" or later: chaining needs it`);
  problems.push({ path: 'cniVersion', message, code: CODE });
}

export function isNetplugEntry(entry: Raw): boolean {
  return entry['type'] === 'netplug' || usesOurIpam(entry);
}

function usesOurIpam({ ipam }: Raw): boolean {
  return isRecord(ipam) && ipam['type'] === 'netplug-ipam';
}

/** Moves remarks on keys that the runtime copies from the list to the list. */
function asRemarks(findings: Findings, start: string): Remark[] {
  const inherited = [at(start, 'name'), at(start, 'cniVersion')];
  return remarksOf(findings, { start, code: CODE }).map(({ severity, problem }) => {
    if (start === '' || !inherited.includes(problem.path)) return { severity, problem };
    const path = problem.path.slice(start.length + 1);
    const { fix } = problem;
    const moved = fix === undefined ? {} : { fix: fix.map((edit) => ({ ...edit, path })) };
    return { severity, problem: { ...problem, ...moved, path } };
  });
}

/** Removes duplicates, since several entries of netplug inherit the same mistakes of the list. */
function withoutRepeats(remarks: readonly Remark[]): readonly Remark[] {
  return [
    ...new Map(
      remarks.map((remark) => [`${remark.severity}\n${remark.problem.path}\n${remark.problem.message}`, remark]),
    ).values(),
  ];
}
