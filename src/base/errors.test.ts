import { describe, expect, it } from 'vitest';
import { reasonOf } from './errors.ts';

describe('the reason of a failure', () => {
  it('names every address to which a connection failed', () => {
    const errors = ['::1', '127.0.0.1'].map((host) => new Error(`connect ECONNREFUSED ${host}:1`));
    expect(reasonOf(new AggregateError(errors))).toBe('connect ECONNREFUSED ::1:1, connect ECONNREFUSED 127.0.0.1:1');
  });
});
