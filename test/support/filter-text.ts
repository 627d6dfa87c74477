import { type Cidr, formatCidr } from '../../src/net/cidr.ts';

/** Returns a table of the packet filter, or a list of them, as readable JSON. */
export function filterText(tables: unknown): string {
  return JSON.stringify(
    tables,
    (key, value: unknown) => {
      if (value instanceof Map) return Object.fromEntries(value);
      if (value instanceof Set) return [...value];
      // Only matches have a field of that name.
      return key === 'nets' && Array.isArray(value) ? (value as readonly Cidr[]).map(formatCidr) : value;
    },
    2,
  );
}
