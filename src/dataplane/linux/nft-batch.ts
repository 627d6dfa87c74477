import type { NftJson, NftObject, NftTable } from '../packet-filter.ts';

/** What `nft -j -f -` reads, as one transaction, to replace the table whether it exists or not. */
export function replacementBatch({ name, objects }: NftTable): string {
  const table = { table: { family: 'inet', name } };
  // Deleting what does not exist is refused, so it is added first.
  const removal = [{ add: table }, { delete: table }];
  const addition = objects.length === 0 ? [] : [{ add: table }, ...objects.map((object) => addTo(name, object))];
  return JSON.stringify({ nftables: [...removal, ...addition] });
}

function addTo(table: string, object: NftObject): NftJson {
  const parts = Object.entries(object).map(([kind, part]) => [kind, { family: 'inet', table, ...part }]);
  return { add: Object.fromEntries(parts) };
}
