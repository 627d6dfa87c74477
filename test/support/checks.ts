import { expect, it } from 'vitest';
import { type Check, judgeAll } from '../../src/checks/check.ts';

/** A state in which exactly one check finds something; more where one fault cannot be without the other. */
type Broken<F> = Partial<F> | { readonly facts: Partial<F>; readonly ids: readonly string[] };

/**
 * Every check is silent about what is sound and about what others find, and finds what is broken for it. `broken` has a
 * state for each of them, by the part of its id behind the slash.
 */
export function expectEachCheck<F extends object>(
  checks: readonly Check<F>[],
  sound: F,
  broken: Readonly<Record<string, Broken<F>>>,
): void {
  const find = (facts: F): readonly string[] => [...new Set(judgeAll(checks, facts).map(({ id }) => id))];
  it('finds nothing on a healthy node', () => {
    expect(find(sound)).toEqual([]);
  });
  it('has a failing state for each check', () => {
    expect(Object.keys(broken).toSorted()).toEqual(checks.map(({ id }) => id.split('/')[1]).toSorted());
  });
  it.each(Object.entries(broken))('finds %s', (name, state) => {
    const area = checks[0]?.id.split('/')[0] ?? '';
    const { facts, ids } = 'ids' in state ? state : { facts: state, ids: [`${area}/${name}`] };
    expect(find({ ...sound, ...facts })).toEqual(ids);
  });
}
