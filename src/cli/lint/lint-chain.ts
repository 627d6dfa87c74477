import { didYouMean, nearMiss } from '../../base/near-miss.ts';
import { type Findings, showFound } from '../../base/problem.ts';
import { isRecord } from '../../model/read-schema.ts';

type Raw = Readonly<Record<string, unknown>>;

/** The chained plugins netplug supports, with what the specification says of them ("Chained plugin entries"). */
const CHAINED: Readonly<Record<string, { readonly flags: readonly string[]; readonly capability: string }>> = {
  portmap: { flags: ['snat'], capability: 'portMappings' },
  bandwidth: { flags: [], capability: 'bandwidth' },
};
export const CHAINED_TYPES: readonly string[] = Object.keys(CHAINED);

/** Checks the entry of a chained plugin; paths are those inside the entry. */
export function lintChained(entry: Raw, { problems, warnings }: Findings): void {
  const type = String(entry['type']);
  const rules = CHAINED[type];
  if (rules === undefined) {
    warnings.push(`Plugin "${type}" is not supported in a chain with netplug: it may work, but nobody has made sure`);
    return;
  }
  const known = ['type', ...rules.flags, 'capabilities'];
  for (const [key, value] of Object.entries(entry)) {
    if (rules.flags.includes(key)) requireBoolean(key, value, problems);
    else if (!known.includes(key)) refuseSlip(key, { known, type }, { problems, warnings });
  }
  const capabilities = entry['capabilities'];
  if (capabilities === undefined) {
    warnings.push(
      `Plugin "${type}" is told nothing by the runtime: "capabilities": {"${rules.capability}": true} is missing`,
    );
  } else if (isRecord(capabilities)) {
    for (const [key, value] of Object.entries(capabilities)) {
      requireBoolean(`capabilities.${key}`, value, problems);
      if (key !== rules.capability)
        refuseSlip(
          `capabilities.${key}`,
          { known: [`capabilities.${rules.capability}`], type },
          { problems, warnings },
        );
    }
  } else {
    const message = `found ${showFound(capabilities)}, allowed is an object such as {"${rules.capability}": true}`;
    problems.push({ path: 'capabilities', message, code: 'netconf/invalid' });
  }
}

function requireBoolean(path: string, value: unknown, problems: Findings['problems']): void {
  if (typeof value === 'boolean') return;
  const hint = value === 'true' || value === 'false' ? { hint: `write ${value} without quotes` } : {};
  const message = `found ${showFound(value)}, allowed is true or false, without quotes`;
  problems.push({ path, message, code: 'netconf/invalid', ...hint });
}

/** A slip in a name of ours is an error; what resembles nothing is the plugin's own business. */
function refuseSlip(
  path: string,
  { known, type }: { known: readonly string[]; type: string },
  findings: Findings,
): void {
  const meant = nearMiss(path, known);
  if (meant === undefined) findings.warnings.push(`${path} is passed on to "${type}" unchecked`);
  else
    findings.problems.push({
      path,
      message: `is not a key of ${type}`,
      hint: didYouMean(meant),
      code: 'netconf/invalid',
    });
}
