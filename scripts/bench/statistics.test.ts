import { describe, expect, it } from 'vitest';
import { mean, quantile, summarise } from './statistics.ts';

const UP_TO_200 = Array.from({ length: 200 }, (_, index) => 200 - index);

describe('quantiles', () => {
  it.each([
    [0, 1],
    [0.5, 100],
    [0.9, 180],
    [0.99, 198],
    [1, 200],
  ])('of %d of 1 to 200 is %d', (share, value) => {
    expect(quantile(UP_TO_200, share)).toBe(value);
  });

  it('of one value are that value', () => {
    expect([0, 0.5, 0.99, 1].map((share) => quantile([7], share))).toEqual([7, 7, 7, 7]);
  });

  it('and means of nothing are refused', () => {
    expect(() => quantile([], 0.5)).toThrow('no samples');
    expect(() => mean([])).toThrow('no samples');
  });
});

describe('a summary', () => {
  it('gives every call its share of what the agent used', () => {
    const samples = [
      { ms: 1, cpuMs: 2 },
      { ms: 3, cpuMs: 4 },
    ];
    expect(summarise(samples, 10)).toEqual({ samples: 2, minMs: 1, p50Ms: 1, p90Ms: 3, p99Ms: 3, cpuMs: 8 });
  });
});
