import { expect, it } from 'vitest';
import type { ReportedNodeProblem } from './node-report.ts';
import { boundedReport } from './bounded-report.ts';

const since = '2026-12-01T09:00:00Z';
const problem = (code: string, text: string): ReportedNodeProblem => ({ code, severity: 'warning', text, since });

it('keeps five problems of a code, so that many of one kind leave room for others, and counts the rest', () => {
  const many = Array.from({ length: 100 }, (_, index) => problem('policy/records', `policy ${String(index)}`));
  const report = boundedReport([...many, problem('network/bgp', 'no session')]);
  expect(report.problems.map(({ text }) => text)).toEqual([...many.slice(0, 5).map(({ text }) => text), 'no session']);
  expect(report.more).toBe(95);
});

it('keeps forty problems of a thousand characters', () => {
  const long = Array.from({ length: 60 }, (_, index) => problem(`code/${String(index)}`, 'x'.repeat(5000)));
  const report = boundedReport(long.map((each) => ({ ...each, remedy: 'y'.repeat(5000) })));
  expect([report.problems.length, report.more]).toEqual([40, 20]);
  expect(JSON.stringify(report).length).toBeLessThan(100_000);
  expect(boundedReport([])).toEqual({ problems: [] });
});
