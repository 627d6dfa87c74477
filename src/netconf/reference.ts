import { netconfJsonSchema } from './schema.ts';

type Node = ReturnType<typeof netconfJsonSchema>;

interface Row {
  readonly path: string;
  readonly type: string;
  readonly byDefault: string;
  readonly about: string;
}

/** The reference page of the network configuration, in Markdown. Written from the declaration, never by hand. */
export function netconfReference(): string {
  const rows = Object.entries(netconfJsonSchema().properties ?? {}).flatMap(([key, node]) => rowsOf(key, node));
  const cells = rows.map(({ path, type, byDefault, about }) => [`\`${path}\``, type, byDefault, about]);
  return [
    '# Network configuration',
    '',
    'Written by `npm run docs:write` from the declaration in `src/netconf`; do not edit.',
    '',
    'Keys of the CNI standard (`prevResult`, `runtimeConfig`, `capabilities`, `args`, `dns`, `cni.dev/…`) pass through.',
    'A key that is nearly one of these is refused; any other unknown key is ignored with a warning.',
    'An empty string is the same as leaving the option out.',
    '',
    ...tableLines([['Field', 'Type', 'Default', 'Meaning'], ...cells]),
    '',
  ].join('\n');
}

/** A table whose columns are aligned, as the formatter of the repository wants it; the first row is the head. */
function tableLines(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  const lineOf = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  const [head = '', ...body] = rows.map(lineOf);
  return [head, lineOf(widths.map((width) => '-'.repeat(width))), ...body];
}

function rowsOf(path: string, node: Node | boolean): Row[] {
  if (typeof node === 'boolean') return [];
  const { description = '', default: byDefault } = node;
  const showsDefault = byDefault !== undefined && typeof byDefault !== 'object';
  const own = {
    path,
    type: typeText(node),
    byDefault: showsDefault ? `\`${JSON.stringify(byDefault)}\`` : '',
    about: description,
  };
  const { place, inner } = innermost(path, node);
  return [own, ...Object.entries(inner.properties ?? {}).flatMap(([key, child]) => rowsOf(`${place}.${key}`, child))];
}

/** The objects inside nested arrays, with one `[]` for each level. */
function innermost(path: string, node: Node): { place: string; inner: Node } {
  const { items } = node;
  if (items === undefined || typeof items === 'boolean' || Array.isArray(items)) return { place: path, inner: node };
  return innermost(`${path}[]`, items);
}

function typeText(node: Node): string {
  if (node.const !== undefined) return `\`${JSON.stringify(node.const)}\``;
  if (node.enum !== undefined) {
    return node.enum
      .filter((option) => option !== '')
      .map((option) => `\`${JSON.stringify(option)}\``)
      .join(', ');
  }
  const { items } = node;
  if (items !== undefined && typeof items !== 'boolean' && !Array.isArray(items)) return `array of ${typeText(items)}`;
  return String(node.type);
}
