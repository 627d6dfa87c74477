import type { NftJson } from '../packet-filter.ts';

/** One object as nft shows it, under its kind, such as `{ "chain": { … } }`. */
export type NftEntry = Readonly<Record<string, { readonly [key: string]: NftJson }>>;

/** What `nft -j list table` prints, in a form that is equal exactly when the table means the same. */
export function readListing(text: string): readonly NftEntry[] {
  // What nft prints is described in libnftables-json(5).
  const { nftables } = JSON.parse(text) as { nftables: NftJson };
  return canonical(nftables) as readonly NftEntry[];
}

function canonical(value: NftJson): NftJson {
  if (typeof value !== 'object' || value === null) return value;
  if (isList(value)) return value.map(canonical);
  // Handles are numbers the kernel gives anew each time.
  const kept = Object.entries(value).filter(([key]) => key !== 'handle');
  return Object.fromEntries(
    kept.map(([key, part]) => [key, key === 'elem' && isList(part) ? inOrder(part) : canonical(part)]),
  );
}

/** A set has no order, and the kernel shows one that may change. */
function inOrder(elements: readonly NftJson[]): NftJson {
  return elements.map((element) => JSON.stringify(canonical(element))).toSorted();
}

function isList(value: NftJson): value is readonly NftJson[] {
  return Array.isArray(value);
}
