import { describe, expect, it } from 'vitest';
import { clockSkewMs } from './clock-skew.ts';

const date = 'Thu, 01 Jan 2026 00:00:10 GMT';
const at = (seconds: number): number => Date.parse('2026-01-01T00:00:00Z') + seconds * 1000;

describe('the skew between two clocks', () => {
  it.each([
    ['is none within the second of the header', 10.2, 10.9, 0],
    ['is none when the answer took half a minute on a busy machine', 9, 39, 0],
    ['is none when the request waited half a minute for the server', -20, 10.5, 0],
    ['counts from the end of that second when the clock is ahead', 17, 17.1, 6000],
    ['counts from its beginning when the clock is behind', 3.9, 4, -6000],
  ])('%s', (_, sent, received, skewMs) => {
    expect(clockSkewMs({ sentMs: at(sent), receivedMs: at(received), date })).toBe(skewMs);
  });

  it.each([undefined, 'yesterday'])('is unknown with the header %s', (header) => {
    expect(clockSkewMs({ sentMs: at(10), receivedMs: at(10), date: header })).toBeUndefined();
  });
});
