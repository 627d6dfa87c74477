import type { NftJson } from '../packet-filter.ts';

/** One object as nft lists it, under its kind, such as `{ "chain": { … } }`. */
export type NftEntry = Readonly<Record<string, { readonly [key: string]: NftJson }>>;

/** Reads the output of `nft -j list table`. Two results are equal exactly when the tables are equivalent. */
export function readListing(text: string): readonly NftEntry[] {
  // The format is described in libnftables-json(5).
  const { nftables } = JSON.parse(text) as { nftables: NftJson };
  return canonical(nftables) as readonly NftEntry[];
}

function canonical(value: NftJson): NftJson {
  if (typeof value !== 'object' || value === null) return value;
  if (isList(value)) return value.map(canonical);
  // The kernel assigns new handles each time.
  const kept = Object.entries(value).filter(([key]) => key !== 'handle');
  return Object.fromEntries(
    kept.map(([key, part]) => [key, key === 'elem' && isList(part) ? inOrder(part) : canonical(part)]),
  );
}

/** Sorts the elements of a set, which the kernel lists in any order. */
function inOrder(elements: readonly NftJson[]): NftJson {
  return elements.map((element) => JSON.stringify(canonical(element))).toSorted();
}

function isList(value: NftJson): value is readonly NftJson[] {
  return Array.isArray(value);
}
