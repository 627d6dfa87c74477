import type { NodeName } from '../../model/names.ts';
import type { EndpointId } from '../../model/workload-endpoint.ts';
import { compareCidrs } from '../../net/cidr.ts';
import type { NodeView } from '../allocation-store.ts';
import { settingQueries, settingsFrom } from '../node-settings.ts';
import { decodeBorrowed } from './borrowed-records.ts';
import type { KeyValue } from '../../../proto/gen/etcd.ts';
import { cidrOfKey, type Keys } from './keys.ts';
import { retryOnCompaction, fetchBlocks, type EtcdReader } from './read-blocks.ts';
import { blockReader, endpointReader, resourceRecord } from './records.ts';
import { get, getRange, rangeOf, rangesIn, decodeText, txn } from './requests.ts';
import { sortOut } from '../unreadable.ts';

/** One request; a second one for the blocks the node borrows from, when there are any, at the same moment. */
export async function readNodeView(
  reader: EtcdReader,
  node: NodeName,
  endpoint: EndpointId | undefined,
): Promise<NodeView> {
  return retryOnCompaction(async () => {
    const { client, keys, signal } = reader;
    const queries = settingQueries(node);
    const success = [
      getRange(rangeOf(keys.blocksOf(node))),
      getRange(rangeOf(keys.borrowedBy(node))),
      ...queries.map(({ of: kind, name }) =>
        name === undefined ? getRange(rangeOf(keys.resources(kind))) : get(keys.resource({ kind, name })),
      ),
      ...(endpoint === undefined ? [] : [get(keys.endpoint(endpoint))]),
    ];
    const answer = await client.read(txn({ success }), signal);
    const [owned = [], lent = [], ...rest] = rangesIn(answer);
    const blocks = borrowedKeys(keys, lent);
    const borrowed = await fetchBlocks(reader, { blocks, revision: answer.header?.revision ?? 0n });
    const settings = settingsFrom(
      queries.flatMap(({ of: kind }, index) =>
        (rest[index] ?? []).map((kv) => resourceRecord({ keys, kind, query: index }, kv, true)),
      ),
    );
    const read = {
      owned: sortOut(owned, blockReader(keys)),
      borrowed: sortOut(borrowed, blockReader(keys)),
      endpoints: sortOut(rest.slice(queries.length).flat(), endpointReader(keys)),
    };
    return {
      ...settings,
      owned: read.owned.good.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)),
      borrowed: read.borrowed.good.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)),
      endpoint: read.endpoints.good[0],
      rollbacks: client.rollbacks,
      problems: [...settings.problems, ...Object.values(read).flatMap(({ problems }) => problems)],
    };
  });
}

/** Returns the keys of the blocks that the node borrows from, as the index of borrowers says. */
export function borrowedKeys(keys: Keys, lent: readonly KeyValue[]): readonly string[] {
  return lent.flatMap((kv) => {
    const cidr = cidrOfKey(decodeText(kv.key));
    const record = decodeBorrowed(decodeText(kv.value));
    return cidr === undefined || record === undefined ? [] : [keys.block(cidr, record.owner)];
  });
}
