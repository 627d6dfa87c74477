import { expect, it } from 'vitest';
import type { NodeReport, ReportedNodeProblem } from '../../model/node-report.ts';
import { API_VERSION } from '../../model/resource.ts';
import { reportedNodes } from './node-reports.ts';

const since = '2026-12-01T09:00:00Z';
const error = (code: string): ReportedNodeProblem => ({
  code,
  severity: 'error',
  text: 'it fails',
  remedy: 'Mend it',
  since,
});

function report(name: string, ...problems: readonly ReportedNodeProblem[]): NodeReport {
  return { apiVersion: API_VERSION, kind: 'NodeReport', metadata: { name }, spec: { problems } };
}

it('names node, sentence and remedy of the first errors, and those for which a runtime cannot call the plugin', () => {
  const names = ['d', 'b', 'a', 'c'];
  const reports = names.map((name) => report(name, error(name === 'c' ? 'plugin/shadowed' : 'network/failing')));
  const { errors, uncallable, warnings } = reportedNodes(
    reports,
    names.map((name) => ({ name })),
  );
  expect(errors).toEqual([
    'node "a": it fails (Mend it)',
    'node "b": it fails (Mend it)',
    'node "c": it fails (Mend it)',
    '1 more: netplugctl node status --all',
  ]);
  expect([uncallable, warnings]).toEqual([['node "c": it fails (Mend it)'], []]);
});

it('leaves out the report of a Node that is gone', () => {
  expect(reportedNodes([report('a', error('x'))], [])).toEqual({ errors: [], warnings: [], uncallable: [] });
});
