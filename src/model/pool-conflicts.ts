import type { Problem } from '../base/problem.ts';
import { cidrsOverlap, parseCidr } from '../net/cidr.ts';
import type { IpPool } from './ip-pool.ts';

/**
 * What stands against writing the pool beside the others. `previous` is the pool as it is stored, when this is an
 * update; a pool among the others with the candidate's own name is passed over.
 */
export function poolProblems(candidate: IpPool, others: readonly IpPool[], previous?: IpPool): Problem[] {
  const problems: Problem[] = [];
  const { cidr } = candidate.spec;
  for (const field of ['cidr', 'blockSize'] as const) {
    if (previous === undefined || previous.spec[field] === candidate.spec[field]) continue;
    problems.push({
      path: `spec.${field}`,
      message: `cannot be changed from ${String(previous.spec[field])} to ${String(candidate.spec[field])}`,
      hint: 'create another pool and disable this one',
      code: 'resource/invalid',
    });
  }
  const range = parseCidr(cidr);
  for (const { metadata, spec } of others) {
    if (metadata.name === candidate.metadata.name || !cidrsOverlap(parseCidr(spec.cidr), range)) continue;
    const message = `${cidr} overlaps ${spec.cidr} of pool "${metadata.name}"`;
    problems.push({ path: 'spec.cidr', message, code: 'resource/invalid' });
  }
  return problems;
}
