import { visibleText } from '../../../base/visible-text.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { countProblems, type NodeReport, type NodeReportSpec } from '../../../model/node-report.ts';
import type { Output } from '../common-options.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { renderDocument } from '../render-document.ts';
import { painterFor, type Screen } from '../screen.ts';
import { renderTable } from '../table.ts';
import { renderProblems } from './render-network.ts';
import { listReports } from './list-reports.ts';

/** A node and what its agent has reported; undefined while it has reported nothing. */
interface ReportedNode {
  readonly node: string;
  readonly report: NodeReportSpec | undefined;
}

/** Shows what the agents of all nodes report. Returns 1 when one of them reports a problem, or has never reported. @throws store/* */
export async function showReports(context: Context, output: Output): Promise<Status> {
  const { io, signal } = context;
  return withStore(context, 'read', async (store) => {
    const { nodes, problems } = await readReports(store, signal);
    for (const problem of problems) io.stderr(`warning: ${problem}\n`);
    io.stdout(renderDocument(nodes, output, (all) => renderNodes(all, io.screen)));
    return nodes.every(({ report }) => report?.problems.length === 0) && problems.length === 0 ? 0 : 1;
  });
}

async function readReports(
  store: ResourceStore,
  signal: AbortSignal,
): Promise<{ readonly nodes: readonly ReportedNode[]; readonly problems: readonly string[] }> {
  const [nodes, reports] = await Promise.all([store.listResources('Node', signal), listReports(store, signal)]);
  // Before its first report an agent records its machine.
  const reported = reports.resources.filter(({ spec }) => spec.reportedAt !== undefined);
  const byName = new Map(reported.map((each: NodeReport) => [each.metadata.name, each.spec]));
  return {
    nodes: nodes.resources.map(({ metadata }) => ({ node: metadata.name, report: byName.get(metadata.name) })),
    problems: reports.problems,
  };
}

function renderNodes(nodes: readonly ReportedNode[], screen: Screen): string {
  const paint = painterFor(screen);
  const rows = nodes.map(({ node, report }) => [
    visibleText(node),
    report === undefined ? '?' : String(countProblems(report.problems, 'error')),
    report === undefined ? '?' : String(countProblems(report.problems, 'warning')),
    visibleText(report?.release ?? ''),
    report === undefined ? 'never' : visibleText(report.reportedAt ?? ''),
  ]);
  const details = nodes.flatMap(({ node, report }) => {
    if (report === undefined || report.problems.length === 0) return [];
    const more = report.more === undefined ? '' : `  ${String(report.more)} more: netplugctl node status on the node\n`;
    return [`\n${paint('bold', `node ${visibleText(node)}`)}\n${renderProblems(report.problems, paint)}${more}`];
  });
  return [renderTable(['NODE', 'ERRORS', 'WARNINGS', 'RELEASE', 'REPORTED'], rows), ...details].join('');
}
