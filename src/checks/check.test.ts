import { describe, expect, it } from 'vitest';
import { type Check, faultOf, judgeAll } from './check.ts';

interface Facts {
  readonly names: readonly string[];
}
const check = (more: Partial<Check<Facts>>): Check<Facts> => ({
  id: 'a/b',
  severity: 'error',
  expected: 'no names',
  judge: ({ names }) => names,
  ...more,
});

describe('judgeAll', () => {
  it('gives each finding the remedy and the command of its check', () => {
    const checks = [check({ remedy: 'Remove it', command: 'rm it' })];
    expect(judgeAll(checks, { names: ['x', 'y'] })).toEqual([
      { id: 'a/b', severity: 'error', expected: 'no names', found: 'x', remedy: 'Remove it', command: 'rm it' },
      { id: 'a/b', severity: 'error', expected: 'no names', found: 'y', remedy: 'Remove it', command: 'rm it' },
    ]);
  });

  it('prefers the remedy of a fault, which the command of the check would not fit', () => {
    const own = check({
      remedy: 'Remove it',
      command: 'rm it',
      judge: ({ names }) => faultOf(names, 'names exist', 'Keep them'),
    });
    expect(judgeAll([own], { names: ['x'] })).toEqual([
      { id: 'a/b', severity: 'error', expected: 'no names', found: 'names exist', objects: ['x'], remedy: 'Keep them' },
    ]);
    expect(judgeAll([own], { names: [] })).toEqual([]);
  });

  it('reports a check whose facts could not be read as not known, instead of passing it', () => {
    const checks = [check({ needs: ['pods'] }), check({ id: 'a/other' })];
    const found = judgeAll(checks, { names: [] }, [{ fact: 'pods', why: 'forbidden' }]);
    expect(found).toMatchObject([
      { id: 'a/b', severity: 'error', found: 'not known: pods could not be read (forbidden)' },
    ]);
  });
});
