import { describe, expect, it } from 'vitest';
import { at, problemsError, showFound, sortProblems } from './problem.ts';

const CODE = 'netconf/invalid';

describe('problems', () => {
  it('have paths in the notation of JavaScript', () => {
    expect(at('ipam', 'ranges', 0, 1, 'subnet')).toBe('ipam.ranges[0][1].subnet');
    expect(at('', 'cni.dev/x')).toBe('["cni.dev/x"]');
  });

  it('show the value with its type, shortened, without passwords', () => {
    expect(showFound(true)).toBe('true (boolean)');
    expect(showFound(null)).toBe('null');
    expect(showFound('https://me:secret@kv')).toBe('"https://…@kv" (string)');
    expect(showFound('x'.repeat(200))).toHaveLength(80 + ' (string)'.length);
  });

  it('are sorted by path with numeric order, each once', () => {
    const problem = (path: string) => ({ path, message: 'm', code: CODE }) as const;
    const sorted = sortProblems([problem('a[10]'), problem('a[9]'), problem('a[9]')]);
    expect(sorted.map(({ path }) => path)).toEqual(['a[9]', 'a[10]']);
  });

  it('determine the code of the error when all have the same', () => {
    const version = { path: 'a', message: 'm', code: 'cni/version-unsupported' } as const;
    expect(problemsError('it', [version], CODE).code).toBe('cni/version-unsupported');
    expect(problemsError('it', [version, { path: 'b', message: 'm', code: 'resource/invalid' }], CODE).code).toBe(CODE);
  });
});
