import { type Cidr, formatCidr } from '../../net/cidr.ts';
import type { NodeFeed } from '../node-feed.ts';
import type { NodeChange } from '../watch-store.ts';
import { type EtcdWatch, isPut } from './etcd-watch.ts';
import type { Event, KeyValue } from '../../../proto/gen/etcd_pb.js';
import { cidrOfKey } from './keys.ts';
import type { NodeRecords } from './read-node.ts';
import { type Reach, readBlockRecords } from './read-blocks.ts';
import { blockReader, foundBy } from './records.ts';
import { decodeText } from './requests.ts';

/** Where an event about a block comes from: among the node's own, under another owner, or the index of borrowers. */
export type BlockTopic = 'owned' | 'borrowed' | 'lent';

interface Place {
  readonly key: string;
  readonly watchId: bigint;
}

/**
 * The blocks of a node as they change. A block that is written in place is told as it comes. When it moves or the node
 * begins to borrow from it, the events come one by one from several ranges, in any order: then the block is read, and
 * events up to the revision of that reading say nothing new.
 */
export class FollowedBlocks {
  readonly #reach: Reach;
  readonly #feed: NodeFeed;
  readonly #watch: EtcdWatch<unknown>;
  readonly #follow: (key: string, after: bigint) => bigint;
  /** Up to which revision a block is known, by its CIDR. Stays when the block goes, against events that come late. */
  readonly #known = new Map<string, bigint>();
  /** Blocks under other owners that are followed one by one. */
  readonly #places = new Map<string, Place>();

  constructor(parts: {
    reach: Reach;
    feed: NodeFeed;
    watch: EtcdWatch<unknown>;
    follow: (key: string, after: bigint) => bigint;
  }) {
    this.#reach = parts.reach;
    this.#feed = parts.feed;
    this.#watch = parts.watch;
    this.#follow = parts.follow;
  }

  begin({ owned, borrowed, revision }: Pick<NodeRecords, 'owned' | 'borrowed' | 'revision'>): void {
    for (const kv of [...owned, ...borrowed]) {
      const cidr = cidrOfKey(decodeText(kv.key));
      if (cidr !== undefined) this.#tell(cidr, { kv, revision, isFar: borrowed.includes(kv) });
    }
  }

  async changes(topic: BlockTopic, event: Event): Promise<NodeChange[]> {
    const { kv } = event;
    const cidr = kv === undefined ? undefined : cidrOfKey(decodeText(kv.key));
    if (kv === undefined || cidr === undefined || kv.modRevision <= (this.#known.get(formatCidr(cidr)) ?? 0n))
      return [];
    if (topic !== 'lent' && isPut(event)) {
      return this.#tell(cidr, { kv, revision: kv.modRevision, isFar: topic === 'borrowed' });
    }
    // Who stops borrowing learns it from the block itself.
    if (topic === 'lent' && !isPut(event)) return [];
    const { kvs, revision } = await readBlockRecords(this.#reach, [cidr]);
    const own = this.#reach.keys.block(cidr, this.#feed.node);
    return this.#tell(cidr, { kv: kvs[0], revision, isFar: kvs[0] !== undefined && decodeText(kvs[0].key) !== own });
  }

  #tell(
    cidr: Cidr,
    { kv, revision, isFar }: { readonly kv: KeyValue | undefined; readonly revision: bigint; readonly isFar: boolean },
  ): NodeChange[] {
    const name = formatCidr(cidr);
    this.#known.set(name, revision);
    const found = foundBy(kv, blockReader(this.#reach.keys));
    const isFollowed = isFar && kv !== undefined && this.#feed.mayConcern(found);
    this.#place(name, isFollowed ? decodeText(kv.key) : undefined, revision);
    return this.#feed.block(name, isFar && !isFollowed ? undefined : found);
  }

  #place(name: string, key: string | undefined, revision: bigint): void {
    const place = this.#places.get(name);
    if (place?.key === key) return;
    if (place !== undefined) this.#watch.leave(place.watchId);
    if (key === undefined) this.#places.delete(name);
    else this.#places.set(name, { key, watchId: this.#follow(key, revision) });
  }
}
