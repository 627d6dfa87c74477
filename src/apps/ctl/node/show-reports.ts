import { visibleText } from '../../../base/visible-text.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { countProblems, type NodeReport, type NodeReportSpec, type NodeSeverity } from '../../../model/node-report.ts';
import type { Output } from '../common-options.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { renderDocument } from '../render-document.ts';
import { painterFor, type Screen } from '../screen.ts';
import { renderTable } from '../table.ts';
import { renderProblems } from './render-network.ts';
import { isRenewed } from '../../../install/cluster/node-reports.ts';
import { hasReported, listReports } from './list-reports.ts';

/** A node and what its agent has reported; undefined while it has reported nothing. */
interface ReportedNode {
  readonly node: string;
  readonly report: NodeReportSpec | undefined;
  /** The report is not of the present: the agent has not written it again. */
  readonly isSilent: boolean;
}

/**
 * Shows what the agents of all nodes report. Returns 1 when one of them reports a problem, is silent, or has never reported.
 * @throws store/*
 */
export async function showReports(context: Context, output: Output): Promise<Status> {
  const { io, signal, ports } = context;
  return withStore(context, 'read', async (store) => {
    const { nodes, problems } = await readReports(store, ports.clock.now(), signal);
    for (const problem of problems) io.stderr(`warning: ${problem}\n`);
    io.stdout(renderDocument(nodes, output, (all) => renderNodes(all, io.screen)));
    const isWell = ({ report, isSilent }: ReportedNode): boolean => report?.problems.length === 0 && !isSilent;
    return nodes.every(isWell) && problems.length === 0 ? 0 : 1;
  });
}

async function readReports(
  store: ResourceStore,
  nowMs: number,
  signal: AbortSignal,
): Promise<{ readonly nodes: readonly ReportedNode[]; readonly problems: readonly string[] }> {
  const [nodes, reports] = await Promise.all([store.listResources('Node', signal), listReports(store, signal)]);
  const reported = reports.resources.filter(({ spec }) => hasReported(spec));
  const byName = new Map(reported.map((each: NodeReport) => [each.metadata.name, each.spec]));
  return {
    nodes: nodes.resources.map(({ metadata: { name } }) => {
      const report = byName.get(name);
      return { node: name, report, isSilent: report !== undefined && !isRenewed(report, nowMs) };
    }),
    problems: reports.problems,
  };
}

function renderNodes(nodes: readonly ReportedNode[], screen: Screen): string {
  const paint = painterFor(screen);
  const rows = nodes.map(({ node, report, isSilent }) => {
    const count = (severity: NodeSeverity): string =>
      report === undefined || isSilent ? '?' : String(countProblems(report.problems, severity));
    const at = visibleText(report?.reportedAt ?? 'never');
    return [
      visibleText(node),
      count('error'),
      count('warning'),
      visibleText(report?.release ?? ''),
      isSilent ? `silent since ${at}` : at,
    ];
  });
  const details = nodes.flatMap(({ node, report, isSilent }) => {
    if (report === undefined || report.problems.length === 0) return [];
    const more = report.more === undefined ? '' : `  ${String(report.more)} more: netplugctl node status on the node\n`;
    const title = `node ${visibleText(node)}${isSilent ? ', before its agent fell silent' : ''}`;
    return [`\n${paint('bold', title)}\n${renderProblems(report.problems, paint)}${more}`];
  });
  return [renderTable(['NODE', 'ERRORS', 'WARNINGS', 'RELEASE', 'REPORTED'], rows), ...details].join('');
}
