import type { Check, Fault } from '../../../checks/check.ts';
import { counted } from '../../../base/counted.ts';
import type { NodeReport, NodeSeverity } from '../../../model/node-report.ts';
import type { Sources } from './sources.ts';
import { topic } from './topic.ts';
import { listReports } from '../node/list-reports.ts';

/** What the agents of other nodes report; that of this machine is asked itself. */
export interface ReportFacts {
  readonly reports: readonly NodeReport[];
}

const SEE = { remedy: 'Read the log of netplug-agent on that node', command: 'netplugctl node status --all' } as const;

export const REPORT_CHECKS: readonly Check<ReportFacts>[] = [
  {
    id: 'nodes/failing',
    severity: 'error',
    expected: 'nodes whose agents report no error',
    ...SEE,
    judge: ({ reports }) => reports.flatMap((report) => faultsOf(report, 'error')),
  },
  {
    id: 'nodes/warning',
    severity: 'warning',
    expected: 'nodes whose agents report no warning',
    ...SEE,
    judge: ({ reports }) => reports.flatMap((report) => faultsOf(report, 'warning')),
  },
];

function faultsOf({ metadata, spec }: NodeReport, severity: NodeSeverity): readonly Fault[] {
  return spec.problems
    .filter((problem) => problem.severity === severity)
    .map(({ text, remedy }) => ({
      found: `node "${metadata.name}": ${text}`,
      objects: [`Node ${metadata.name}`],
      ...(remedy === undefined ? {} : { remedy }),
    }));
}

export const REPORTS = topic({
  area: 'nodes',
  scope: 'cluster',
  needsRecords: true,
  gather: gatherReports,
  measure: ({ reports }) => [counted(reports.length, 'report')],
  checks: REPORT_CHECKS,
});

async function gatherReports(sources: Sources, signal: AbortSignal): Promise<ReportFacts> {
  const store = await sources.store();
  const { nodes } = await sources.records();
  const present = new Set(nodes.map(({ metadata }) => metadata.name));
  if (sources.includesNode) present.delete((await sources.agent()).registeredName ?? '');
  const { resources } = await listReports(store, signal);
  return { reports: resources.filter(({ metadata }) => present.has(metadata.name)) };
}
