import { didYouMean, nearMiss, onlyNearMiss, sameLetters } from '../../../base/near-miss.ts';
import { at, type Findings } from '../../../base/problem.ts';
import { ANNOTATIONS, BANDWIDTH_ANNOTATIONS } from '../../../model/annotation-keys.ts';
import { CONTAINER_ID, POD_IPS } from '../../../model/notes.ts';

export const POOL_ANNOTATIONS: readonly string[] = Object.values(ANNOTATIONS.pools);
export const ALL_ANNOTATIONS: readonly string[] = [
  ...POOL_ANNOTATIONS,
  ANNOTATIONS.ipAddrs,
  ANNOTATIONS.ipAddrsNoIpam,
  ANNOTATIONS.floatingIPs,
  ...Object.values(BANDWIDTH_ANNOTATIONS),
];
/** Prefixes that users confuse with that of netplug. */
const TAKEN_FOR_OURS = ['netplug', 'netplug.io', 'cni.netplug.io'];
const RELATIVE = 'cni.projectcalico.org';

/** Reports a wrong name of an annotation, if it resembles one of netplug. */
export function checkAnnotationKey(
  key: string,
  beside: Readonly<Record<string, unknown>>,
  { problems, warnings }: Findings,
): void {
  if (ALL_ANNOTATIONS.includes(key) || key === POD_IPS || key === CONTAINER_ID) return;
  const path = at('annotations', key);
  const { prefix, name } = split(key);
  const ours = ALL_ANNOTATIONS.filter((each) => isMeant(prefix, split(each).prefix));
  const meant = nearMiss(name, ours.map(nameOf));
  const full = ours.find((each) => nameOf(each) === meant);
  if (full === undefined) {
    if (prefix !== 'cni.netplug') return;
    const allowed = ours.map((each) => `"${each}"`).join(', ');
    problems.push({ path, message: `is no annotation of netplug; allowed is ${allowed}`, code: 'annotation/invalid' });
  } else if (prefix === RELATIVE) {
    warnings.push({ path, message: `${key} is not read by netplug: ${didYouMean(full)}` });
  } else {
    const isCertain = onlyNearMiss(name, ours.map(nameOf)) !== undefined && !Object.hasOwn(beside, full);
    problems.push({
      path,
      message: 'is no annotation of netplug',
      hint: didYouMean(full),
      code: 'annotation/invalid',
      ...(isCertain ? { fix: [{ kind: 'rename', path, to: full }] } : {}),
    });
  }
}

function isMeant(prefix: string, ours: string): boolean {
  if (prefix === ours) return true;
  if (ours === 'orch') return prefix === 'netplug' || prefix === 'cni.netplug';
  return prefix === RELATIVE || TAKEN_FOR_OURS.includes(prefix) || isSlip(prefix, ours);
}

/** Reports whether the prefix is a misspelling of one of netplug. */
function isSlip(prefix: string, ours: string): boolean {
  return sameLetters(prefix, [ours]) !== undefined || nearMiss(prefix, [ours]) !== undefined;
}

function split(key: string): { prefix: string; name: string } {
  const slash = key.lastIndexOf('/');
  return { prefix: slash === -1 ? '' : key.slice(0, slash), name: key.slice(slash + 1) };
}

function nameOf(key: string): string {
  return split(key).name;
}
