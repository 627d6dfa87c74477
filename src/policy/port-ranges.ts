import type { PortRange } from './resolved-policy.ts';

/** Returns the same ports in ranges that neither overlap nor touch, in order. */
export function disjointRanges(ranges: readonly PortRange[]): readonly PortRange[] {
  const joined: { first: number; last: number }[] = [];
  for (const { first, last } of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = joined.at(-1);
    if (before !== undefined && first <= before.last + 1) before.last = Math.max(before.last, last);
    else joined.push({ first, last });
  }
  return joined;
}
