import type { Delta } from '../../cache/record-cache.ts';
import type { Stored } from '../../datastore/allocation-store.ts';
import type { FollowedRecord, Query } from '../../datastore/follow.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import { showResourceId } from '../../model/resource-id.ts';
import { endpointIdOf, endpointKey, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';

export type Side = 'datastore' | 'orchestrator';

/** Records that a controller observes: of netplug's datastore, or made from objects of the orchestrator. */
export interface Feed {
  readonly side: Side;
  readonly query: Query;
}

/** Change of one record of a feed: new without `before`, deleted without `after`. */
export interface ObservedChange {
  readonly feed: Feed;
  /** Id of the record, from `observedId`. */
  readonly id: string;
  readonly before: FollowedRecord | undefined;
  readonly after: FollowedRecord | undefined;
}

/** The records of all feeds, each under its id. Equal feeds of different controllers are one. */
export class Observed {
  readonly #feeds = new Map<string, Map<string, FollowedRecord>>();
  /** Ids of endpoints, by feed and pod. */
  readonly #pods = new Map<string, Map<string, Set<string>>>();

  find(feed: Feed, id: string): FollowedRecord | undefined {
    return this.#feeds.get(feedKey(feed))?.get(id);
  }

  all(feed: Feed): Iterable<readonly [id: string, record: FollowedRecord]> {
    return this.#feeds.get(feedKey(feed)) ?? [];
  }

  count(feed: Feed): number {
    return this.#feeds.get(feedKey(feed))?.size ?? 0;
  }

  /** Returns the endpoints of a pod, named by `podIn`. */
  endpointsOf(feed: Feed, pod: string): readonly Stored<WorkloadEndpoint>[] {
    const found: Stored<WorkloadEndpoint>[] = [];
    for (const id of this.#pods.get(feedKey(feed))?.get(pod) ?? []) {
      const endpoint = endpointIn(this.find(feed, id));
      if (endpoint !== undefined) found.push(endpoint);
    }
    return found;
  }

  /** Takes in how a record differs from the last time, and returns the changes by id: the id of a record may change. */
  take(feed: Feed, { before, after }: Delta): readonly ObservedChange[] {
    const key = feedKey(feed);
    const records = this.#feeds.get(key) ?? new Map<string, FollowedRecord>();
    this.#feeds.set(key, records);
    const isGone = after.value === undefined && after.problem === undefined;
    const idBefore = before === undefined ? undefined : observedId(before);
    const id = isGone ? undefined : observedId(after);
    const changes: ObservedChange[] = [];
    if (idBefore !== undefined && idBefore !== id) {
      records.delete(idBefore);
      this.#note(key, { id: idBefore, record: before, isThere: false });
      changes.push({ feed, id: idBefore, before, after: undefined });
    }
    if (id !== undefined) {
      records.set(id, after);
      this.#note(key, { id, record: after, isThere: true });
      changes.push({ feed, id, before: idBefore === id ? before : undefined, after });
    }
    return changes;
  }

  #note(
    feed: string,
    {
      id,
      record,
      isThere,
    }: { readonly id: string; readonly record: FollowedRecord | undefined; readonly isThere: boolean },
  ): void {
    const pod = podIn(record);
    if (pod === undefined) return;
    const pods = this.#pods.get(feed) ?? new Map<string, Set<string>>();
    this.#pods.set(feed, pods);
    const ids = pods.get(pod) ?? new Set<string>();
    if (isThere) pods.set(pod, ids.add(id));
    else if (ids.delete(id) && ids.size === 0) pods.delete(pod);
  }
}

/** Returns a text that identifies the pod of the endpoint, unless it is none of a pod. */
export function podIn(record: FollowedRecord | undefined): string | undefined {
  if (record?.kind !== 'endpoint' || record.value?.spec.pod === undefined) return undefined;
  const { metadata, spec } = record.value;
  return `${metadata.namespace ?? 'default'}/${spec.pod}`;
}

/** Returns the resources of a feed that can be read. */
export function resourcesOfFeed<K extends ResourceKind>(
  observed: Observed,
  feed: Feed,
  kind: K,
): readonly ResourceOf<K>[] {
  const isOfKind = (value: AnyResource): value is ResourceOf<K> => value.kind === kind;
  return [...observed.all(feed)].flatMap(([, record]) =>
    record.kind === 'resource' && record.value !== undefined && isOfKind(record.value) ? [record.value] : [],
  );
}

export function endpointIn(record: FollowedRecord | undefined): Stored<WorkloadEndpoint> | undefined {
  if (record?.kind !== 'endpoint' || record.value === undefined) return undefined;
  return { value: record.value, version: record.version };
}

/** Returns the text that identifies what the record is about: the same for the same resource or endpoint on both sides. */
export function observedId(record: FollowedRecord): string {
  if (record.kind === 'resource') return showResourceId(record.which);
  if (record.kind === 'endpoint' && record.value !== undefined) return endpointKey(endpointIdOf(record.value));
  return record.key;
}

/** There are few feeds, and each change of a record asks for the key of its own several times. */
const FEED_KEYS = new WeakMap<Feed, string>();

/** Returns the same text for feeds of the same records. */
export function feedKey(feed: Feed): string {
  const known = FEED_KEYS.get(feed);
  if (known !== undefined) return known;
  const key = JSON.stringify([feed.side, feed.query]);
  FEED_KEYS.set(feed, key);
  return key;
}
