/** Renders a table with aligned columns, as Prettier formats it. */
export function markdownTable(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [titles, ...rows].map((row) => row.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = titles.map((_, column) => Math.max(3, ...lines.map((line) => line[column]?.length ?? 0)));
  const text = (line: readonly string[]): string =>
    `| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  const [head = [], ...body] = lines;
  return [text(head), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...body.map(text)].join('\n');
}
