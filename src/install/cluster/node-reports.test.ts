import { expect, it } from 'vitest';
import type { NodeReport, ReportedNodeProblem } from '../../model/node-report.ts';
import { API_VERSION } from '../../model/resource.ts';
import { reportedNodes } from './node-reports.ts';

const NOW = '2026-12-01T09:00:00Z';
const NONE = { errors: [], warnings: [], uncallable: [] };
const problem = (text: string, more: Partial<ReportedNodeProblem> = {}): ReportedNodeProblem => ({
  code: 'network/failing',
  severity: 'error',
  text,
  since: NOW,
  ...more,
});

function report(name: string, ...problems: readonly ReportedNodeProblem[]): NodeReport {
  return { apiVersion: API_VERSION, kind: 'NodeReport', metadata: { name }, spec: { reportedAt: NOW, problems } };
}

function shown(reports: readonly NodeReport[], minutes = 0): ReturnType<typeof reportedNodes> {
  const nodes = reports.map(({ metadata: { name } }) => ({ name }));
  return reportedNodes(reports, { nodes, nowMs: Date.parse(NOW) + minutes * 60_000 });
}

it('names node, sentence and remedy of the first errors, and those for which a runtime cannot call the plugin', () => {
  const { errors, uncallable, warnings } = shown([
    report('d', problem('no route')),
    report('b', problem('no tunnel', { remedy: 'Load the module' })),
    report('a', problem('no address')),
    report('c', problem('another list sorts first', { code: 'plugin/shadowed' })),
    report('e', problem('no program', { code: 'plugin/without-program' })),
  ]);
  expect(errors).toEqual([
    'node "a": no address',
    'node "b": no tunnel (Load the module)',
    'node "c": another list sorts first',
    '2 more: netplugctl node status --all',
  ]);
  expect([uncallable, warnings]).toEqual([['node "c": another list sorts first', 'node "e": no program'], []]);
});

it('lets no node hide what others report: nodes take turns, and the same problem of many counts once', () => {
  const many = Array.from({ length: 5 }, (_, index) => problem(`route ${'x'.repeat(index + 1)} fails`));
  const { errors } = shown([
    report('a', ...many),
    report('b', ...many),
    report('c', problem('pod has lost its address')),
  ]);
  expect(errors).toEqual([
    'node "a" and 1 more: route x fails',
    'node "c": pod has lost its address',
    'node "a" and 1 more: route xx fails',
    '3 more: netplugctl node status --all',
  ]);
});

it('leaves out reports of Nodes that are gone, and of agents that no longer renew theirs', () => {
  const reports = [report('a', problem('no route'))];
  expect(reportedNodes(reports, { nodes: [], nowMs: Date.parse(NOW) })).toEqual(NONE);
  expect(shown(reports, 29).errors).toHaveLength(1);
  expect(shown(reports, 30)).toEqual(NONE);
});
