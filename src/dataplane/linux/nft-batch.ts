import type { NftJson, NftObject, NftTable } from '../packet-filter.ts';
import type { NftEntry } from './nft-listing.ts';

/** A set, map or chain without what it holds. */
interface Holder {
  readonly kind: string;
  readonly name: string;
  /** Equal for holders that can stand for one another. */
  readonly definition: string;
}

/** What surrounds the holders in a listing, and what they hold. */
const NO_HOLDERS: ReadonlySet<string> = new Set(['metainfo', 'table', 'rule']);
const NOT_DEFINING: ReadonlySet<string> = new Set(['family', 'table', 'elem']);

/**
 * What `nft -j -f` reads, as one transaction, to make the table out of what there is of it. Chains and sets stay when
 * they can and are filled anew: the kernel swaps the rules of one chain in one step, but not one chain for another, so
 * that a connection which begins just then would meet neither.
 */
export function replacementBatch({ name, objects }: NftTable, listing: readonly NftEntry[]): string {
  const table = { table: { family: 'inet', name } };
  const at = { family: 'inet', table: name };
  // What does not exist cannot be deleted or emptied, so it is added first.
  if (objects.length === 0) return JSON.stringify({ nftables: [{ add: table }, { delete: table }] });
  const wanted = new Set(holdersIn(objects).map(({ definition }) => definition));
  const existing = holdersIn(listing);
  const leaving = existing.filter(({ definition }) => !wanted.has(definition));
  const staying = existing.filter(({ kind, definition }) => kind !== 'chain' && wanted.has(definition));
  const nftables: readonly NftJson[] = [
    { add: table },
    { flush: table },
    ...leaving.map((holder) => ({ delete: { [holder.kind]: { ...at, name: holder.name } } })),
    ...staying.map((holder) => ({ flush: { [holder.kind]: { ...at, name: holder.name } } })),
    ...objects.map((object) => addTo(at, object)),
  ];
  return JSON.stringify({ nftables });
}

function addTo(at: { readonly family: string; readonly table: string }, object: NftObject): NftJson {
  return { add: Object.fromEntries(Object.entries(object).map(([kind, part]) => [kind, { ...at, ...part }])) };
}

function holdersIn(entries: readonly Readonly<Record<string, object>>[]): readonly Holder[] {
  return entries
    .flatMap((entry) => Object.entries(entry))
    .filter(([kind]) => !NO_HOLDERS.has(kind))
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

/** nft may write a list of one as the one. */
function single(value: unknown): unknown {
  return Array.isArray(value) && value.length === 1 ? value[0] : value;
}
