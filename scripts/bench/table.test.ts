import { describe, expect, it } from 'vitest';
import { judge } from './goals.ts';
import { formatNumber, renderGoals, renderLatencies } from './table.ts';

describe('numbers', () => {
  it.each([
    [0.123, '0.12'],
    [1.5, '1.5'],
    [12.34, '12.3'],
    [1234.5, '1235'],
    [Number.NaN, '-'],
  ])('%d is written %s', (value, text) => {
    expect(formatNumber(value)).toBe(text);
  });
});

it('puts numbers to the right below each other', () => {
  const latency = { what: 'ADD', samples: 200, minMs: 1, p50Ms: 2, p90Ms: 3, p99Ms: 400, cpuMs: 5 };
  const [head, first, second] = renderLatencies([
    { ...latency, candidate: 'agent' },
    { ...latency, candidate: 'ptp', p99Ms: 4 },
  ]).split('\n');
  expect(first).toMatch(/^ADD {2,}agent {2,}200 {4}1 {4}2 {4}3 {2}400 +5$/);
  expect([first?.length, second?.length]).toEqual([head?.length, head?.length]);
});

it('a table of the benchmark gives the reason of each missed goal, and of no other', () => {
  const goal = { text: 'speed', limit: { atLeast: 3 }, unit: '/s' };
  const goals = [
    { ...goal, figure: 'slow', missed: 'the disk is slow; a faster one was tried' },
    { ...goal, figure: 'fast', missed: 'not any more' },
  ];
  const figures = [
    { id: 'slow', what: '', value: 2, unit: '/s' },
    { id: 'fast', what: '', value: 4, unit: '/s' },
  ];
  const text = renderGoals(judge(goals, figures));
  expect(text).toMatch(/^speed +>= 3 \/s +2 \/s +missed$/m);
  expect(text).toContain('speed: the disk is slow; a faster one was tried');
  expect(text).not.toContain('not any more');
});
