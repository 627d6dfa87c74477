import { ClusterFeed, type Seen } from '../cluster-feed.ts';
import { type ClusterChange, ROUTING_KINDS, type RoutingResource } from '../store.ts';
import { EtcdWatch, isPut } from './etcd-watch.ts';
import { FollowedRouting } from './followed-routing.ts';
import type { Event, KeyValue } from './gen/etcd_pb.js';
import { lastSegmentOf } from './keys.ts';
import { listRange } from './paging.ts';
import { again, type Reach } from './read-blocks.ts';
import { resourceReader, Unreadable } from './records.ts';
import { textOf } from './requests.ts';

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
  followed.begin(routing);
  for (const { kind, kvs } of resources) for (const kv of kvs) feedRecord(feed, kind, { kv, isThere: true });
  yield feed.all();

  const watch = new EtcdWatch<Topic>(client);
  watch.follow('routing', keys.routing(), revision);
  for (const kind of ROUTING_KINDS) watch.follow(kind, keys.resources(kind), revision);
  for await (const { topic, events } of watch.batches(signal)) {
    if (topic === 'routing') yield* followed.changes(events);
    else for (const event of events) yield* resourceChanges(feed, topic, event);
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

function resourceChanges(feed: ClusterFeed, kind: RoutingKind, event: Event): ClusterChange[] {
  const { kv } = event;
  return kv === undefined ? [] : feedRecord(feed, kind, { kv, isThere: isPut(event) });
}

function feedRecord(
  feed: ClusterFeed,
  kind: RoutingKind,
  { kv, isThere }: { readonly kv: KeyValue; readonly isThere: boolean },
): ClusterChange[] {
  const key = textOf(kv.key);
  return feed.resource({ kind, name: lastSegmentOf(key) ?? key }, isThere ? seenBy(kv, kind) : {});
}

function seenBy(kv: KeyValue, kind: RoutingKind): Seen<RoutingResource> {
  const read = resourceReader(kind)(kv);
  return read instanceof Unreadable ? { problem: read.problem } : { value: read.resource };
}
