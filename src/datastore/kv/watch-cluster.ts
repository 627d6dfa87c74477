import { inPieces, mapPieces } from '../../base/pieces.ts';
import { ClusterFeed } from '../cluster-feed.ts';
import { type ClusterChange, ROUTING_KINDS, type RoutingResource } from '../watch-store.ts';
import { EtcdWatch, isPut } from './etcd-watch.ts';
import { FollowedRouting } from './followed-routing.ts';
import type { Event, KeyValue } from '../../../proto/gen/etcd_pb.js';
import type { Keys } from './keys.ts';
import { listRange } from './paging.ts';
import { again, type Reach } from './read-blocks.ts';
import { sighting } from './records.ts';

type RoutingKind = RoutingResource['kind'];
type Topic = RoutingKind | 'routing';

interface ClusterRecords {
  readonly revision: bigint;
  readonly routing: readonly KeyValue[];
  readonly resources: readonly { readonly kind: RoutingKind; readonly kvs: readonly KeyValue[] }[];
}

/** Claims and borrowed keys say all that routes need of a block: the blocks themselves, which change with every pod, are not read. */
export async function* watchCluster(reach: Reach, pageSize: number): AsyncGenerator<ClusterChange> {
  const { client, keys, signal } = reach;
  const { revision, routing, resources } = await readRecords(reach, pageSize);
  const feed = new ClusterFeed();
  const followed = new FollowedRouting(keys, feed);
  await inPieces(followed.begin(routing));
  for (const { kind, kvs } of resources)
    await inPieces(mapPieces(kvs, (kv) => feedRecord({ keys, feed, kind }, { kv, isThere: true })));
  yield await inPieces(feed.all());

  const watch = new EtcdWatch<Topic>(client);
  watch.follow('routing', keys.routing(), revision);
  for (const kind of ROUTING_KINDS) watch.follow(kind, keys.resources(kind), revision);
  for await (const { topic, events } of watch.batches(signal)) {
    if (topic === 'routing') yield* await inPieces(followed.changes(events));
    else for (const event of events) yield* resourceChanges({ keys, feed, kind: topic }, event);
  }
}

/** Everything as it was at one revision. */
async function readRecords({ client, keys, signal }: Reach, pageSize: number): Promise<ClusterRecords> {
  return again(async () => {
    const { kvs: routing, revision } = await listRange(client, keys.routing(), { pageSize, signal });
    const resources = await Promise.all(
      ROUTING_KINDS.map(async (kind) => {
        const { kvs } = await listRange(client, keys.resources(kind), { pageSize, revision, signal });
        return { kind, kvs };
      }),
    );
    return { revision, routing, resources };
  });
}

interface Fed {
  readonly keys: Keys;
  readonly feed: ClusterFeed;
  readonly kind: RoutingKind;
}

function resourceChanges(into: Fed, event: Event): ClusterChange[] {
  const { kv } = event;
  return kv === undefined ? [] : feedRecord(into, { kv, isThere: isPut(event) });
}

function feedRecord({ keys, feed, kind }: Fed, record: Parameters<typeof sighting>[2]): ClusterChange[] {
  const { which, seen } = sighting(keys, kind, record);
  return feed.resource({ kind, name: which.name }, seen);
}
