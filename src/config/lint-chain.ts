import { ownValue } from '../base/own-value.ts';
import { didYouMean, nearMiss, onlyNearMiss } from '../base/near-miss.ts';
import { at, type Findings, type Fix, foundNotAllowed } from '../base/problem.ts';
import { isRecord } from '../model/read-schema.ts';

type Raw = Readonly<Record<string, unknown>>;

/** The chained plugins that netplug supports (map: lint-chain). */
export const CHAINED: Readonly<Record<string, { readonly flags: readonly string[]; readonly capability: string }>> = {
  portmap: { flags: ['snat'], capability: 'portMappings' },
  bandwidth: { flags: [], capability: 'bandwidth' },
};
const CODE = 'netconf/invalid';
export const CHAINED_TYPES: readonly string[] = Object.keys(CHAINED);

/** Checks the entry of a chained plugin; paths are those inside the entry. */
export function lintChained(entry: Raw, { problems, warnings }: Findings): void {
  const type = String(entry['type']);
  const rules = ownValue(CHAINED, type);
  if (rules === undefined) {
    const message = `Plugin "${type}" is not supported in a chain with netplug: it may work, but is not tested`;
    warnings.push({ path: 'type', message });
    return;
  }
  const known = ['type', ...rules.flags, 'capabilities'];
  for (const [key, value] of Object.entries(entry)) {
    if (rules.flags.includes(key)) requireBoolean(key, value, problems);
    else if (!known.includes(key)) refuseSlip(key, { known, type, section: entry, path: '' }, { problems, warnings });
  }
  const capabilities = entry['capabilities'];
  if (capabilities === undefined) {
    const message = `The runtime passes nothing to plugin "${type}": "capabilities": {"${rules.capability}": true} is missing`;
    warnings.push({ path: '', message });
  } else if (isRecord(capabilities)) {
    const inside = { known: [rules.capability], type, section: capabilities, path: 'capabilities' };
    for (const [key, value] of Object.entries(capabilities)) {
      requireBoolean(at('capabilities', key), value, problems);
      if (key !== rules.capability) refuseSlip(key, inside, { problems, warnings });
    }
  } else {
    const message = foundNotAllowed(capabilities, `an object such as {"${rules.capability}": true}`);
    problems.push({ path: 'capabilities', message, code: CODE });
  }
}

function requireBoolean(path: string, value: unknown, problems: Findings['problems']): void {
  if (typeof value === 'boolean') return;
  const message = foundNotAllowed(value, 'true or false, without quotes');
  const isQuoted = value === 'true' || value === 'false';
  const fix: Fix = [{ kind: 'set', path, value: value === 'true' }];
  problems.push({ path, message, code: CODE, ...(isQuoted ? { hint: `write ${value} without quotes`, fix } : {}) });
}

interface Section {
  readonly known: readonly string[];
  readonly type: string;
  readonly section: Raw;
  readonly path: string;
}

/** Reports a misspelt known key as an error, and any other key as passed on unchecked. */
function refuseSlip(key: string, { known, type, section, path: start }: Section, findings: Findings): void {
  const path = at(start, key);
  const meant = nearMiss(key, known);
  if (meant === undefined) {
    findings.warnings.push({ path, message: `${path} is passed on to "${type}" unchecked` });
    return;
  }
  const isCertain = onlyNearMiss(key, known) !== undefined && !Object.hasOwn(section, meant);
  const fix: Fix = [{ kind: 'rename', path, to: meant }];
  const hint = didYouMean(meant);
  findings.problems.push({
    path,
    message: `is not a key of ${type}`,
    hint,
    code: CODE,
    ...(isCertain ? { fix } : {}),
  });
}
