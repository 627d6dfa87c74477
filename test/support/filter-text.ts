import type { FilterTable } from '../../src/dataplane/policy-filter.ts';
import { type Cidr, formatCidr } from '../../src/net/cidr.ts';

/** Returns the table with a line for each set, chain and rule; nothing without a table. */
export function filterText(table: FilterTable | undefined): string {
  if (table === undefined) return '';
  const sets = [...table.sets].map(
    ([name, { elements, ...kind }]) => `set ${name} ${shown(kind)} ${shown([...elements])}`,
  );
  const chains = [...table.chains].flatMap(([name, { hook, rules }]) => [
    `chain ${name} ${shown(hook)}`,
    ...rules.map(({ id, parts }) => `  ${id} ${parts.map(shown).join(' ')}`),
  ]);
  return `${[`table ${table.name}`, ...sets, ...chains].join('\n')}\n`;
}

/** Only matches of addresses have a field `nets`. */
function shown(value: unknown): string {
  return JSON.stringify(value, (key, inner: unknown) =>
    key === 'nets' ? (inner as readonly Cidr[]).map(formatCidr) : inner,
  );
}
