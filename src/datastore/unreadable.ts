import { NetplugError } from '../base/errors.ts';

/** A record that could not be understood. */
export class Unreadable {
  /** The record, and why. */
  readonly problem: string;
  /** How it is repaired. */
  readonly hint: string;

  constructor(problem: string, hint: string) {
    this.problem = problem;
    this.hint = hint;
  }
}

/** Sorts what was read into what is understood and the problems with the rest. */
export function sortOut<R, T>(
  records: readonly R[],
  read: (record: R) => T | Unreadable,
): { readonly good: T[]; readonly problems: string[] } {
  const good: T[] = [];
  const problems: string[] = [];
  for (const each of records) {
    const record = read(each);
    if (record instanceof Unreadable) problems.push(record.problem);
    else good.push(record);
  }
  return { good, problems };
}

/** @throws store/corrupt for a record that cannot be left out. */
export function insist<T>(record: T | Unreadable): T {
  if (!(record instanceof Unreadable)) return record;
  const { problem, hint } = record;
  throw new NetplugError('store/corrupt', problem, { hint });
}
