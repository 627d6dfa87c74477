// Which cases of the soak fit into the time that is left.
import { createHash } from 'node:crypto';
import type { SoakCase } from '../../test/soak-cases.ts';

/** When cases have passed last, by their names. */
export type SoakRecord = Readonly<Record<string, LastRun>>;

export interface LastRun {
  /** ISO 8601. */
  readonly at: string;
  readonly minutes: number;
}

/** Returns the cases in the order in which they are due: those that never passed, in an order of the commit, then the oldest. */
export function orderByDue(cases: readonly SoakCase[], record: SoakRecord, commit: string): readonly SoakCase[] {
  const keyOf = ({ name }: SoakCase): string =>
    record[name]?.at ?? `0 ${createHash('sha256').update(`${commit} ${name}`).digest('hex')}`;
  return cases.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

/** Returns the minutes that a case is expected to take. */
export function expectedMinutes({ name, minutes }: SoakCase, record: SoakRecord): number {
  return record[name]?.minutes ?? minutes;
}

/** Returns in how many runs with this share of minutes every case has run; Infinity for a share in which one does not fit. */
export function runsForAll(cases: readonly SoakCase[], record: SoakRecord, share: number): number {
  const minutes = cases.map((each) => expectedMinutes(each, record));
  if (minutes.some((each) => each > share)) return Infinity;
  // A run may leave as much as the longest case unused.
  const used = Math.max(share - Math.max(...minutes), share / 2);
  return Math.ceil(minutes.reduce((sum, each) => sum + each, 0) / used);
}
