import { describe, expect, it } from 'vitest';
import { reasonOf } from './errors.ts';

describe('a reason in words', () => {
  it('names every address that a name leads to', () => {
    const errors = ['::1', '127.0.0.1'].map((host) => new Error(`connect ECONNREFUSED ${host}:1`));
    expect(reasonOf(new AggregateError(errors))).toBe('connect ECONNREFUSED ::1:1, connect ECONNREFUSED 127.0.0.1:1');
  });
});
