import { describe, expect, it } from 'vitest';
import { type Goal, GOALS, judge } from './goals.ts';

const goal: Goal = { figure: 'a', text: 'a thing', limit: { atMost: 2 } };
const figureOf = (value: number): { id: string; what: string; value: number; unit: string } => ({
  id: 'a',
  what: '',
  value,
  unit: 'ms',
});

describe('judging', () => {
  it.each([
    { limit: { atMost: 2 }, value: 2, verdict: 'met' },
    { limit: { atMost: 2 }, value: 2.01, verdict: 'missed' },
    { limit: { atLeast: 2 }, value: 2, verdict: 'met' },
    { limit: { atLeast: 2 }, value: 1.99, verdict: 'missed' },
    { limit: { atMost: 2 }, value: Number.NaN, verdict: 'missed' },
  ])('says that $value is $verdict within $limit', ({ limit, value, verdict }) => {
    expect(judge([{ ...goal, limit }], [figureOf(value)])).toMatchObject([{ verdict, value }]);
  });

  it('says so when nothing was measured', () => {
    expect(judge([goal], [])).toMatchObject([{ verdict: 'not measured', value: undefined }]);
  });
});

it('has one goal for each figure', () => {
  expect(new Set(GOALS.map(({ figure }) => figure)).size).toBe(GOALS.length);
});
