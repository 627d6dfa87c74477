/**
 * Renders aligned columns with two spaces between them, titles first if given; ends with a line break. `least` are
 * minimum widths of the columns.
 */
export function renderTable(
  titles: readonly string[] | undefined,
  rows: readonly (readonly string[])[],
  least: readonly number[] = [],
): string {
  // A text from elsewhere must not begin a row of its own.
  const cells = rows.map((row) => row.map((cell) => cell.replaceAll('\n', String.raw`\n`)));
  const lines = titles === undefined ? cells : [titles, ...cells];
  const widths = (lines[0] ?? []).map((_, column) =>
    Math.max(least[column] ?? 0, ...lines.map((line) => (line[column] ?? '').length)),
  );
  return lines
    .map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
    .map((line) => `${line.trimEnd()}\n`)
    .join('');
}
