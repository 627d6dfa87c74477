// The results as text for a terminal.
import type { Judged } from './goals.ts';
import type { Figure, LatencyRow } from './report.ts';

export function renderLatencies(rows: readonly LatencyRow[]): string {
  return renderTable(
    ['whole process, ms', 'candidate', 'samples', 'min', 'p50', 'p90', 'p99', 'CPU per call'],
    rows.map((row) => [
      row.what,
      row.candidate,
      String(row.samples),
      ...[row.minMs, row.p50Ms, row.p90Ms, row.p99Ms, row.cpuMs].map(formatNumber),
    ]),
  );
}

export function renderFigures(figures: readonly Figure[]): string {
  return renderTable(
    ['figure', 'value'],
    figures.map(({ what, value, unit }) => [what, withUnit(value, unit)]),
  );
}

export function renderGoals(goals: readonly Judged[]): string {
  const table = renderTable(
    ['goal', 'limit', 'measured', ''],
    goals.map(({ text, limit, value, unit = '', verdict }) => [
      text,
      'atMost' in limit ? `<= ${withUnit(limit.atMost, unit)}` : `>= ${withUnit(limit.atLeast, unit)}`,
      value === undefined ? '' : withUnit(value, unit),
      verdict,
    ]),
  );
  const reasons = goals.flatMap(({ text, verdict, missed }) =>
    verdict === 'missed' ? [`${text}: ${missed ?? 'missed for a reason not known yet'}`] : [],
  );
  return [table, ...reasons].join('\n');
}

/** Three digits, which is more than the machine is good for. */
export function formatNumber(value: number): string {
  if (Number.isNaN(value)) return '-';
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return Number(value.toFixed(digits)).toString();
}

function withUnit(value: number, unit: string): string {
  return unit === '' ? formatNumber(value) : `${formatNumber(value)} ${unit}`;
}

/** Columns of numbers stand at the right. */
function renderTable(head: readonly string[], body: readonly (readonly string[])[]): string {
  const cell = (row: readonly string[], column: number): string => row[column] ?? '';
  const widths = head.map((_, column) => Math.max(...[head, ...body].map((row) => cell(row, column).length)));
  const isNumeric = head.map((_, column) => body.every((row) => /^(-|[\d.]+)?$/.test(cell(row, column))));
  return [head, ...body]
    .map((row) =>
      widths
        .map((width, column) =>
          isNumeric[column] === true ? cell(row, column).padStart(width) : cell(row, column).padEnd(width),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
