// The tables of metrics and the sections of alerts in the documentation, from src/metrics and manifests/monitoring.
import { markdownTable } from '../src/base/markdown-table.ts';
import { AGENT_METRICS } from '../src/metrics/agent-metrics.ts';
import { CONTROLLER_METRICS } from '../src/metrics/controller-metrics.ts';
import { OPERATOR_METRICS } from '../src/metrics/operator-metrics.ts';
import { TYPHA_METRICS } from '../src/metrics/typha-metrics.ts';
import type { DeclaredMetric, MetricTable } from '../src/metrics/declared.ts';
import { type Alert, readAlerts } from './monitoring-files.ts';

const TITLES = ['Metric', 'Kind', 'Labels', 'Meaning'];
const TABLES: Readonly<Record<string, MetricTable>> = {
  agent: AGENT_METRICS,
  controllers: CONTROLLER_METRICS,
  operator: OPERATOR_METRICS,
  typha: TYPHA_METRICS,
};

/** Returns the page with the table between each pair of markers as the declaration has it. */
export function withMetricTables(page: string): string {
  return page.replaceAll(
    /(<!-- metrics: (\S+) -->\n)[^]*?(<!-- end -->)/g,
    (_, begin: string, marker: string, end: string) => `${begin}\n${metricTable(marker)}\n\n${end}`,
  );
}

/** Returns the page with a section for each alert between the markers. */
export function withAlertSections(page: string): string {
  const sections = readAlerts().map(alertSection);
  return page.replace(
    /(<!-- alerts -->\n)[^]*?(<!-- end -->)/,
    (_, begin: string, end: string) => `${begin}\n${sections.join('\n')}\n${end}`,
  );
}

function metricTable(marker: string): string {
  const table = TABLES[marker];
  if (table === undefined) throw new Error(`no metrics belong to "${marker}"`);
  return markdownTable(TITLES, Object.entries(table).map(metricRow));
}

function metricRow([name, { kind, labels = [], help, note }]: readonly [string, DeclaredMetric]): string[] {
  const meaning = note === undefined ? help : `${help} ${note}`;
  return [`\`${name}\``, kind, labels.map((label) => `\`${label}\``).join(', '), meaning];
}

function alertSection({ alert, expr, for: holdsFor, labels, annotations }: Alert): string {
  const since = holdsFor === '0m' ? 'at once' : `after ${holdsFor}`;
  const steps = annotations.runbook.split('\n').map((step, index) => step.replace('-', `${String(index + 1)}.`));
  return `### ${alert}

${annotations.description} Severity \`${labels.severity}\`, ${since}:

\`\`\`promql
${expr}
\`\`\`

${steps.join('\n')}
`;
}
