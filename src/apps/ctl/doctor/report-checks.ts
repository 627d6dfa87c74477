import type { Check, Fault } from '../../../checks/check.ts';
import { counted } from '../../../base/counted.ts';
import type { NodeReport, NodeSeverity } from '../../../model/node-report.ts';
import type { Sources } from './sources.ts';
import { topic } from './topic.ts';
import { hasReported, listReports } from '../node/list-reports.ts';
import { isRenewed } from '../../../install/cluster/node-reports.ts';

/** What the agents of other nodes report; that of this machine is asked itself. */
export interface ReportFacts {
  readonly reports: readonly NodeReport[];
  readonly nowMs: number;
}

const SEE = { remedy: 'Read the log of netplug-agent on that node', command: 'netplugctl node status --all' } as const;

export const REPORT_CHECKS: readonly Check<ReportFacts>[] = [
  {
    id: 'nodes/failing',
    severity: 'error',
    expected: 'nodes whose agents report no error',
    ...SEE,
    judge: (facts) => faultsOf(facts, 'error'),
  },
  {
    id: 'nodes/silent',
    severity: 'error',
    expected: 'nodes whose agents report',
    ...SEE,
    judge: ({ reports, nowMs }) =>
      reports
        .filter(({ spec }) => !isRenewed(spec, nowMs))
        .map(({ metadata, spec: { reportedAt = '' } }) => ({
          found: `node "${metadata.name}": its agent is silent since ${reportedAt}`,
          objects: [`Node ${metadata.name}`],
        })),
  },
  {
    id: 'nodes/warning',
    severity: 'warning',
    expected: 'nodes whose agents report no warning',
    ...SEE,
    judge: (facts) => faultsOf(facts, 'warning'),
  },
];

/** What an agent has reported last before it fell silent is not the present. */
function faultsOf({ reports, nowMs }: ReportFacts, severity: NodeSeverity): readonly Fault[] {
  return reports
    .filter(({ spec }) => isRenewed(spec, nowMs))
    .flatMap(({ metadata, spec }) =>
      spec.problems
        .filter((problem) => problem.severity === severity)
        .map(({ text, remedy }) => ({
          found: `node "${metadata.name}": ${text}`,
          objects: [`Node ${metadata.name}`],
          ...(remedy === undefined ? {} : { remedy }),
        })),
    );
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
  return {
    reports: resources.filter(({ metadata, spec }) => present.has(metadata.name) && hasReported(spec)),
    nowMs: sources.context.ports.clock.now(),
  };
}
