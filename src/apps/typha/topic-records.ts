import { followFrame, partFrame } from '../../datastore/typha/follow-frames.ts';
import { ownMark } from '../../datastore/typha/stored-objects.ts';
import type { FollowTopic } from '../../datastore/typha/topics.ts';
import type { NodeName } from '../../model/names.ts';
import { type FeedPorts, TopicFeed } from './topic-feed.ts';

/** A record of a topic as text, and the marks of the nodes that may see it, where not every node may. */
export interface TopicEntry {
  readonly text: string;
  readonly marks: readonly string[];
}

/** The records of a topic, and the frames that clients get of them. */
export interface TopicRecords {
  readonly size: number;
  /** Length of all texts. */
  readonly bytes: number;
  /** Snapshots that were built, and sent. */
  readonly counts: { readonly built: number; readonly sent: number };
  /** The version of the last change at the source. */
  changed: number | undefined;
  /** Whether a flush would make a frame. */
  readonly isChanged: boolean;
  /** Position of a client that has been sent everything; 0 where that differs from client to client. */
  readonly flushed: number;
  has(key: string): boolean;
  keys(): Iterable<string>;
  put(key: string, entry: TopicEntry, nowMs: number): void;
  delete(key: string, nowMs: number): void;
  flush(): void;
  feedOf(node: NodeName): TopicFeed<Buffer>;
  /** The feeds of which a snapshot is being built. */
  building(): Iterable<TopicFeed<Buffer>>;
  /** Forgets what was made for nodes other than these. */
  keepOnly(nodes: ReadonlySet<NodeName>): void;
}

/** The same records for every client. */
export class SharedRecords implements TopicRecords {
  changed: number | undefined;
  readonly #feed: TopicFeed<Buffer>;

  constructor(topic: FollowTopic, monotonic: () => number) {
    this.#feed = feedFor(topic, { monotonic, changed: () => this.changed });
  }

  get size(): number {
    return this.#feed.log.size;
  }

  get bytes(): number {
    return this.#feed.log.bytes;
  }

  get counts(): TopicRecords['counts'] {
    return this.#feed.counts;
  }

  get isChanged(): boolean {
    return this.#feed.isChanged;
  }

  get flushed(): number {
    return this.#feed.flushed;
  }

  has(key: string): boolean {
    return this.#feed.log.has(key);
  }

  keys(): Iterable<string> {
    return this.#feed.log.keys();
  }

  put(key: string, { text }: TopicEntry, nowMs: number): void {
    this.#feed.log.put(key, text, nowMs);
  }

  delete(key: string, nowMs: number): void {
    this.#feed.log.delete(key, nowMs);
  }

  flush(): void {
    this.#feed.flush();
  }

  feedOf(): TopicFeed<Buffer> {
    return this.#feed;
  }

  building(): Iterable<TopicFeed<Buffer>> {
    return this.#feed.isBuilding ? [this.#feed] : [];
  }

  keepOnly(): void {
    // What is made for one is made for all.
  }
}

/** Records of which each client sees those that its node holds. They are few, and made for one node alone. */
export class OwnRecords implements TopicRecords {
  changed: number | undefined;
  readonly #topic: FollowTopic;
  readonly #monotonic: () => number;
  readonly #entries = new Map<string, TopicEntry>();
  /** Keys by mark. */
  readonly #held = new Map<string, Set<string>>();
  /** Of nodes with a client, by mark. */
  readonly #feeds = new Map<string, { readonly node: NodeName; readonly feed: TopicFeed<Buffer> }>();
  readonly #changed = new Set<TopicFeed<Buffer>>();
  readonly #counts = { built: 0, sent: 0 };
  #bytes = 0;
  readonly flushed = 0;

  constructor(topic: FollowTopic, monotonic: () => number) {
    this.#topic = topic;
    this.#monotonic = monotonic;
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get counts(): TopicRecords['counts'] {
    const sum = { ...this.#counts };
    for (const { feed } of this.#feeds.values()) add(sum, feed.counts);
    return sum;
  }

  get isChanged(): boolean {
    return this.#changed.size > 0;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  keys(): Iterable<string> {
    return [...this.#entries.keys()];
  }

  put(key: string, entry: TopicEntry, nowMs: number): void {
    const before = this.#entries.get(key);
    if (before?.text === entry.text) return;
    this.#bytes += entry.text.length - (before?.text.length ?? 0);
    this.#entries.set(key, entry);
    for (const mark of before?.marks ?? []) if (!entry.marks.includes(mark)) this.#remove(mark, key, nowMs);
    for (const mark of entry.marks) {
      const keys = this.#held.get(mark) ?? new Set();
      this.#held.set(mark, keys.add(key));
      this.#change(mark, (feed) => feed.log.put(key, entry.text, nowMs));
    }
  }

  delete(key: string, nowMs: number): void {
    const before = this.#entries.get(key);
    if (!this.#entries.delete(key)) return;
    this.#bytes -= before?.text.length ?? 0;
    for (const mark of before?.marks ?? []) this.#remove(mark, key, nowMs);
  }

  flush(): void {
    for (const feed of this.#changed) feed.flush();
    this.#changed.clear();
  }

  feedOf(node: NodeName): TopicFeed<Buffer> {
    const mark = ownMark(node);
    const known = this.#feeds.get(mark);
    if (known !== undefined) return known.feed;
    const feed = feedFor(this.#topic, { monotonic: this.#monotonic, changed: () => this.changed, buildsAtOnce: true });
    for (const key of this.#held.get(mark) ?? [])
      feed.log.put(key, this.#entries.get(key)?.text ?? '', this.#monotonic());
    feed.flush();
    this.#feeds.set(mark, { node, feed });
    return feed;
  }

  building(): Iterable<TopicFeed<Buffer>> {
    return [];
  }

  keepOnly(nodes: ReadonlySet<NodeName>): void {
    for (const [mark, { node, feed }] of this.#feeds) {
      if (nodes.has(node)) continue;
      add(this.#counts, feed.counts);
      this.#feeds.delete(mark);
      this.#changed.delete(feed);
    }
  }

  #remove(mark: string, key: string, nowMs: number): void {
    const keys = this.#held.get(mark);
    keys?.delete(key);
    if (keys?.size === 0) this.#held.delete(mark);
    this.#change(mark, (feed) => feed.log.delete(key, nowMs));
  }

  #change(mark: string, change: (feed: TopicFeed<Buffer>) => boolean): void {
    const feed = this.#feeds.get(mark)?.feed;
    if (feed !== undefined && change(feed)) this.#changed.add(feed);
  }
}

function feedFor(
  topic: FollowTopic,
  ports: Pick<FeedPorts<Buffer>, 'monotonic' | 'changed' | 'buildsAtOnce'>,
): TopicFeed<Buffer> {
  return new TopicFeed({
    ...ports,
    encode: ({ entries, ...part }) => partFrame({ ...part, topic, lines: entries }),
    encodeComplete: () => followFrame({ kind: 'complete', topic }),
  });
}

function add(sum: { built: number; sent: number }, { built, sent }: TopicRecords['counts']): void {
  sum.built += built;
  sum.sent += sent;
}
