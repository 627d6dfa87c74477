import type { ResourceKind } from '../../model/kinds.ts';
import { ResourceFeed } from '../resource-feed.ts';
import type { ResourceChange } from '../watch-store.ts';
import { EtcdWatch, isPut } from './etcd-watch.ts';
import { isCompacted, listRange } from './paging.ts';
import type { Reach } from './read-blocks.ts';
import { sighting } from './records.ts';

/** One listing and one stream; another of each when etcd has forgotten the revision that the stream begins at. */
export async function* watchResources<K extends ResourceKind>(
  reach: Reach,
  { kind, pageSize }: { readonly kind: K; readonly pageSize: number },
): AsyncGenerator<ResourceChange<K>> {
  const { client, keys, signal } = reach;
  const feed = new ResourceFeed(kind);
  for (let isFirst = true; ; isFirst = false) {
    const { kvs, revision } = await listRange(client, keys.resources(kind), { pageSize, signal });
    const changes = feed.replace(kvs.map((kv) => sighting(keys, kind, { kv, isThere: true })));
    if (isFirst) yield feed.all();
    else yield* changes;
    const watch = new EtcdWatch<K>(client);
    watch.follow(kind, keys.resources(kind), revision);
    try {
      for await (const { events } of watch.batches(signal)) {
        for (const event of events) {
          const { kv } = event;
          if (kv !== undefined) yield* feed.take(sighting(keys, kind, { kv, isThere: isPut(event) }));
        }
      }
    } catch (cause) {
      if (!isCompacted(cause)) throw cause;
    }
  }
}
