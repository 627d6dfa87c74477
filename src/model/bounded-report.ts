import { visibleText } from '../base/visible-text.ts';
import { type NodeReportSpec, REPORT_LIMITS, type ReportedNodeProblem } from './node-report.ts';

/**
 * Returns what a report says of the problems: so few of a code that many of one kind, which a tenant may cause, leave room
 * for the others. Pure.
 */
export function boundedReport(
  problems: readonly ReportedNodeProblem[],
): Pick<NodeReportSpec, 'problems'> & { readonly more?: number } {
  const counts = new Map<string, number>();
  const shown = problems
    .filter(({ code }) => {
      const count = (counts.get(code) ?? 0) + 1;
      counts.set(code, count);
      return count <= REPORT_LIMITS.ofCode;
    })
    .slice(0, REPORT_LIMITS.problems)
    .map(({ text, remedy, ...rest }) => ({
      ...rest,
      text: shortened(text),
      ...(remedy === undefined ? {} : { remedy: shortened(remedy) }),
    }));
  const more = Math.min(problems.length - shown.length, 1_000_000);
  return { problems: shown, ...(more === 0 ? {} : { more }) };
}

/** Such a text reaches terminals, and the status of an Installation. */
function shortened(whole: string): string {
  const text = visibleText(whole);
  return text.length <= REPORT_LIMITS.textLength ? text : `${text.slice(0, REPORT_LIMITS.textLength - 1)}…`;
}
