import type { IpBlock } from '../../model/ip-block.ts';
import { DEFAULT_IPAM_CONFIGURATION } from '../../model/ipam-configuration.ts';
import type { NodeName } from '../../model/names.ts';
import type { EndpointId } from '../../model/workload-endpoint.ts';
import { type Cidr, compareCidrs } from '../../net/cidr.ts';
import { compareText } from '../order.ts';
import type { NodeView, Stored } from '../store.ts';
import type { EtcdClient } from './etcd-client.ts';
import type { KeyValue } from './gen/etcd_pb.js';
import { cidrOfKey, type Keys } from './keys.ts';
import { isCompacted } from './paging.ts';
import { blockReader, endpointReader, insist, ownerIn, readClaim, resourceReader, sortOut } from './records.ts';
import { get, getRange, MAX_OPS, rangeOf, rangesIn, textOf, txn } from './requests.ts';

/** What reading takes. */
export interface Reach {
  readonly client: EtcdClient;
  readonly keys: Keys;
  readonly signal: AbortSignal;
}

/** One request; a second one for the blocks the node borrows from, when there are any, at the same moment. */
export async function readNodeView(reach: Reach, node: NodeName, endpoint: EndpointId | undefined): Promise<NodeView> {
  return again(async () => readNodeViewOnce(reach, node, endpoint));
}

/** Two requests: the claims say where the blocks are. */
export async function readBlocks(reach: Reach, cidrs: readonly Cidr[]): Promise<readonly Stored<IpBlock>[]> {
  return again(async () => {
    const { client, keys, signal } = reach;
    const answer = await client.read(txn({ success: cidrs.map((cidr) => get(keys.claim(cidr))) }), signal);
    const claims = rangesIn(answer)
      .flat()
      .map((kv) => insist(readClaim(kv)));
    const kvs = await fetchBlocks(reach, {
      blocks: claims.map(({ cidr, node }) => keys.block(cidr, node)),
      revision: answer.header?.revision ?? 0n,
    });
    const read = blockReader(keys);
    return kvs.map((kv) => insist(read(kv)));
  });
}

async function readNodeViewOnce(reach: Reach, node: NodeName, endpoint: EndpointId | undefined): Promise<NodeView> {
  const { client, keys, signal } = reach;
  const answer = await client.read(
    txn({
      success: [
        getRange(rangeOf(keys.resources('IPPool'))),
        getRange(rangeOf(keys.resources('IPReservation'))),
        get(keys.resource('IPAMConfiguration', 'default')),
        get(keys.resource('Node', node)),
        getRange(rangeOf(keys.blocksOf(node))),
        getRange(rangeOf(keys.borrowedBy(node))),
        ...(endpoint === undefined ? [] : [get(keys.endpoint(endpoint))]),
      ],
    }),
    signal,
  );
  const [pools = [], reservations = [], config = [], nodes = [], owned = [], lent = [], endpoints = []] =
    rangesIn(answer);
  const borrowed = await fetchBlocks(reach, {
    blocks: lent.flatMap((kv) => {
      const cidr = cidrOfKey(textOf(kv.key));
      return cidr === undefined ? [] : [keys.block(cidr, ownerIn(kv))];
    }),
    revision: answer.header?.revision ?? 0n,
  });
  const read = {
    pools: sortOut(pools, resourceReader('IPPool')),
    reservations: sortOut(reservations, resourceReader('IPReservation')),
    config: sortOut(config, resourceReader('IPAMConfiguration')),
    nodes: sortOut(nodes, resourceReader('Node')),
    owned: sortOut(owned, blockReader(keys)),
    borrowed: sortOut(borrowed, blockReader(keys)),
    endpoints: sortOut(endpoints, endpointReader(keys)),
  };
  return {
    pools: read.pools.good
      .map(({ resource, version }) => ({ value: resource, version }))
      .sort((a, b) => compareText(a.value.metadata.name, b.value.metadata.name)),
    reservations: read.reservations.good
      .map(({ resource }) => resource)
      .sort((a, b) => compareText(a.metadata.name, b.metadata.name)),
    config: { ...DEFAULT_IPAM_CONFIGURATION, ...read.config.good[0]?.resource.spec },
    node: read.nodes.good[0]?.resource,
    owned: read.owned.good.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)),
    borrowed: read.borrowed.good.sort((a, b) => compareCidrs(a.value.cidr, b.value.cidr)),
    endpoint: read.endpoints.good[0],
    problems: Object.values(read).flatMap(({ problems }) => problems),
  };
}

/** The blocks under those keys as they were at the revision, so that owners cannot change in between. */
async function fetchBlocks(
  { client, signal }: Reach,
  { blocks, revision }: { readonly blocks: readonly string[]; readonly revision: bigint },
): Promise<KeyValue[]> {
  const kvs: KeyValue[] = [];
  for (let from = 0; from < blocks.length; from += MAX_OPS) {
    const success = blocks.slice(from, from + MAX_OPS).map((key) => get(key, revision));
    kvs.push(...rangesIn(await client.read(txn({ success }), signal)).flat());
  }
  return kvs;
}

/** A revision that etcd forgot between two requests is read again, newer. */
async function again<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (!isCompacted(cause)) throw cause;
    return read();
  }
}
