import type { NftJson, NftObject, NftTable } from '../packet-filter.ts';
import type { NftEntry } from './nft-listing.ts';

/** A set, map or chain without its contents. */
interface Container {
  readonly kind: string;
  readonly name: string;
  /** Equal for containers that are interchangeable. */
  readonly definition: string;
}

/** Kinds of entries in a listing that are not containers. */
const NOT_CONTAINERS: ReadonlySet<string> = new Set(['metainfo', 'table', 'rule']);
const NOT_DEFINING: ReadonlySet<string> = new Set(['family', 'table', 'elem']);

/**
 * Returns the input of `nft -j -f` that changes the existing table to the desired one in one transaction. Chains and sets
 * with an unchanged definition stay and get new contents: the kernel replaces the rules of a chain atomically, but not
 * the chain itself, and a new connection could meet neither the old nor the new one.
 */
export function replacementBatch({ name, objects }: NftTable, listing: readonly NftEntry[]): string {
  const table = { table: { family: 'inet', name } };
  const at = { family: 'inet', table: name };
  // nft cannot delete or flush a missing table, so the batch adds it first.
  if (objects.length === 0) return JSON.stringify({ nftables: [{ add: table }, { delete: table }] });
  const wanted = new Set(containersIn(objects).map(({ definition }) => definition));
  const existing = containersIn(listing);
  const leaving = existing.filter(({ definition }) => !wanted.has(definition));
  const staying = existing.filter(({ kind, definition }) => kind !== 'chain' && wanted.has(definition));
  const nftables: readonly NftJson[] = [
    { add: table },
    { flush: table },
    ...leaving.map(({ kind, name: each }) => ({ delete: { [kind]: { ...at, name: each } } })),
    ...staying.map(({ kind, name: each }) => ({ flush: { [kind]: { ...at, name: each } } })),
    ...objects.map((object) => addTo(at, object)),
  ];
  return JSON.stringify({ nftables });
}

function addTo(at: { readonly family: string; readonly table: string }, object: NftObject): NftJson {
  return { add: Object.fromEntries(Object.entries(object).map(([kind, part]) => [kind, { ...at, ...part }])) };
}

function containersIn(entries: readonly Readonly<Record<string, object>>[]): readonly Container[] {
  return entries
    .flatMap((entry) => Object.entries(entry))
    .filter(([kind]) => !NOT_CONTAINERS.has(kind))
    .map(([kind, part]) => ({
      kind,
      name: 'name' in part ? String(part.name) : '',
      definition: definitionOf(kind, part),
    }));
}

function definitionOf(kind: string, part: object): string {
  const defining = Object.entries(part).filter(([key]) => !NOT_DEFINING.has(key));
  return [kind, ...defining.map(([key, value]) => JSON.stringify([key, single(value)])).toSorted()].join(' ');
}

/** Returns the element of a single-element array, which nft may print without the array. */
function single(value: unknown): unknown {
  return Array.isArray(value) && value.length === 1 ? value[0] : value;
}
