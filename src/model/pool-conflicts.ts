import type { Problem } from '../base/problem.ts';
import { type Cidr, cidrsOverlap, compareCidrs, parseCidr } from '../net/cidr.ts';
import type { IpPool } from './ip-pool.ts';

/**
 * Returns the reasons not to write the pool beside the others. `previous` is the stored pool in case of an update. A pool
 * among the others with the candidate's name is ignored.
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

/**
 * Returns the pools that overlap an older pool, with the name of that one. Addresses are assigned only from the older
 * pool, so that no address belongs to two pools. Pools created in the same second are ordered by name.
 */
export function overlappedPools(pools: readonly IpPool[]): ReadonlyMap<string, string> {
  const ranges = pools.map((pool) => ({ pool, range: parseCidr(pool.spec.cidr) }));
  if (!isAnyOverlap(ranges.map(({ range }) => range))) return new Map();
  const accepted: typeof ranges = [];
  const overlapped = new Map<string, string>();
  for (const each of ranges.toSorted((a, b) => compareAge(a.pool, b.pool))) {
    const older = accepted.find(({ range }) => cidrsOverlap(range, each.range));
    if (older === undefined) accepted.push(each);
    else overlapped.set(each.pool.metadata.name, older.pool.metadata.name);
  }
  return overlapped;
}

/** Reports whether any two ranges overlap. Only neighbours in the order of CIDRs need to be compared. */
function isAnyOverlap(ranges: readonly Cidr[]): boolean {
  const sorted = ranges.toSorted(compareCidrs);
  return sorted.some((range, at) => {
    const before = sorted[at - 1];
    return before !== undefined && cidrsOverlap(before, range);
  });
}

function compareAge({ metadata: a }: IpPool, { metadata: b }: IpPool): number {
  const [createdA, createdB] = [Date.parse(a.creationTimestamp ?? ''), Date.parse(b.creationTimestamp ?? '')];
  if (createdA < createdB) return -1;
  if (createdA > createdB) return 1;
  return a.name < b.name ? -1 : 1;
}
