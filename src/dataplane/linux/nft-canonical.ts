import type { NftJson } from '../packet-filter.ts';

/** The output of `nft -j list table` as text that is equal exactly when the table means the same. */
export function canonicalTable(listing: string): string {
  // What nft prints with -j is described in libnftables-json(5).
  return JSON.stringify(canonical(JSON.parse(listing) as NftJson));
}

function canonical(value: NftJson): NftJson {
  if (typeof value !== 'object') return value;
  if (isList(value)) return value.map(canonical);
  // Handles are numbers the kernel gives anew each time.
  const kept = Object.entries(value).filter(([key]) => key !== 'handle');
  return Object.fromEntries(
    kept.map(([key, part]) => [key, key === 'elem' && isList(part) ? inOrder(part) : canonical(part)]),
  );
}

/** A set has no order, and the kernel shows one that may change. */
function inOrder(elements: readonly NftJson[]): NftJson {
  const texts = elements.map((element) => JSON.stringify(canonical(element)));
  return texts.toSorted();
}

function isList(value: NftJson): value is readonly NftJson[] {
  return Array.isArray(value);
}
