import { slicesOf } from '../../base/slices.ts';
import type { Cidr } from '../../net/cidr.ts';
import type { EtcdClient } from './etcd-client.ts';
import type { KeyValue } from '../../../proto/gen/etcd.ts';
import type { Keys } from './keys.ts';
import { isCompacted, type RangeListing } from './paging.ts';
import { readClaim } from './records.ts';
import { get, MAX_OPS, rangesIn, txn } from './requests.ts';
import { insist } from '../unreadable.ts';

/** Dependencies of reads from etcd. */
export interface EtcdReader {
  readonly client: EtcdClient;
  readonly keys: Keys;
  readonly signal: AbortSignal;
}

/** Two requests: the claims say where the blocks are. */
export async function readBlockRecords(
  { client, keys, signal }: EtcdReader,
  cidrs: readonly Cidr[],
): Promise<RangeListing> {
  return retryOnCompaction(async () => {
    const answer = await client.read(txn({ success: cidrs.map((cidr) => get(keys.claim(cidr))) }), signal);
    const claims = rangesIn(answer)
      .flat()
      .map((kv) => insist(readClaim(kv)));
    const blocks = claims.map(({ cidr, node }) => keys.block(cidr, node));
    const revision = answer.header?.revision ?? 0n;
    return { kvs: await fetchBlocks({ client, keys, signal }, { blocks, revision }), revision };
  });
}

/** The blocks under those keys as they were at the revision, so that owners cannot change in between. */
export async function fetchBlocks(
  { client, signal }: EtcdReader,
  { blocks, revision }: { readonly blocks: readonly string[]; readonly revision: bigint },
): Promise<KeyValue[]> {
  const kvs: KeyValue[] = [];
  for (const some of slicesOf(blocks, MAX_OPS)) {
    const success = some.map((key) => get(key, revision));
    kvs.push(...rangesIn(await client.read(txn({ success }), signal)).flat());
  }
  return kvs;
}

/** Reads again, at a newer revision, when etcd has compacted the revision between two requests. */
export async function retryOnCompaction<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (!isCompacted(cause)) throw cause;
    return read();
  }
}
