import { type LogEntry, TopicLog } from './topic-log.ts';

/** Sizes of a feed. */
export interface FeedLimits {
  /** Most text of one part before it is compressed. */
  readonly partBytes: number;
  /** Number of records that one turn of the event loop reads for a snapshot. */
  readonly slice: number;
}

const LIMITS: FeedLimits = { partBytes: 256 * 1024, slice: 200 };
/** Changes that are kept as they were sent. A follower that is further behind is sent the last state of what it has missed. */
const MOST_FRAMES = 64;
const MOST_FRAME_BYTES = 4 * 1024 * 1024;
/** What was read for followers that were behind: others often are at the same position, after the same snapshot. */
const MOST_CHUNKS = 16;
/** Time for which a snapshot is sent to further followers; longer while less than a tenth of the records has changed. */
const SNAPSHOT_MS = 2000;
const CHANGED_SHARE = 10;

/** Some records of a topic: all that have changed between two positions, or since the part before. */
export interface TopicPart {
  /** Whether it begins a snapshot, which replaces what was sent before. */
  readonly isFirst: boolean;
  readonly entries: readonly LogEntry[];
  /** Position of a reader that has received the part. */
  readonly position: number;
  /** The version of the last change at the source that is in the parts up to this one; undefined when that is not known. */
  readonly changed: number | undefined;
}

export interface FeedPorts<F> {
  /** Encodes a part, once for all followers. */
  readonly encode: (part: TopicPart) => F;
  /** Encodes the mark after a snapshot: everything that there was when the follower began has been sent. */
  readonly encodeComplete: () => F;
  readonly monotonic: () => number;
  readonly limits?: FeedLimits;
  /** Returns the version of the last change at the source. */
  readonly changed: () => number | undefined;
  /** Whether there are few records and few followers: a snapshot is built as soon as one needs it, and little is kept. */
  readonly buildsAtOnce?: boolean;
}

/** A part as it is sent, with what it leads from and to. */
interface Frame<F> {
  readonly from: number;
  readonly to: number;
  readonly sent: F;
}

interface Snapshot<F> {
  readonly parts: F[];
  /** Position to which it is built. */
  position: number;
  /** Deletions up to here concern nothing in it. */
  readonly beganAt: number;
  /** The floor of the log when it began: it has nothing of which a deletion could have been forgotten then. */
  readonly floor: number;
  /** When it was built; undefined until then. */
  builtMs: number | undefined;
  /** Whether a deletion was forgotten that it needs. */
  isVoid: boolean;
}

/** What one follower has been sent of a topic. */
export class TopicCursor<F> {
  /** The snapshot that is being sent, and how many of its parts have been. */
  snapshot: Snapshot<F> | undefined;
  sentParts = 0;
  position = 0;
  /** Deletions up to here concern nothing that was sent. */
  floor = 0;
  /** The log when it began: the snapshot is complete when all of a later flush was sent. Undefined when the mark was sent. */
  completeAt: number | undefined = Infinity;
}

/**
 * A topic as frames for any number of followers: each change is encoded once, a snapshot is built once in slices and sent to
 * all who begin meanwhile. What a slow follower gets later is the last state of what it has missed.
 */
export class TopicFeed<F extends { readonly length: number }> {
  readonly log: TopicLog;
  readonly #ports: FeedPorts<F>;
  readonly #limits: FeedLimits;
  readonly #complete: F;
  #frames: Frame<F>[] = [];
  #frameBytes = 0;
  readonly #chunks = new Map<number, Frame<F>>();
  #flushed = 0;
  #snapshot: Snapshot<F> | undefined;
  /** Entries of the snapshot that are not in a part yet. */
  #pending: LogEntry[] = [];
  #pendingBytes = 0;
  /** Snapshots that were built, and sent. */
  readonly counts = { built: 0, sent: 0 };

  constructor(ports: FeedPorts<F>, log = new TopicLog()) {
    this.#ports = ports;
    this.#limits = ports.limits ?? LIMITS;
    this.log = log;
    this.#complete = ports.encodeComplete();
  }

  /** Whether a flush would make a frame. */
  get isChanged(): boolean {
    return this.log.head > this.#flushed;
  }

  /** Position of a follower that has been sent everything. */
  get flushed(): number {
    return this.#flushed;
  }

  get isBuilding(): boolean {
    return this.#snapshot !== undefined && this.#snapshot.builtMs === undefined && !this.#snapshot.isVoid;
  }

  /** Makes frames of what has changed since the last flush. */
  flush(): void {
    while (this.isChanged) {
      // Frames must not lead over deletions that the log forgot before they were in one.
      const frame = this.#read(Math.max(this.#flushed, this.log.floor));
      this.#frames.push(frame);
      this.#frameBytes += frame.sent.length;
      this.#flushed = frame.to;
    }
    const most = this.#ports.buildsAtOnce === true ? 1 : MOST_FRAMES;
    while (this.#frames.length > most || (this.#frames.length > 1 && this.#frameBytes > MOST_FRAME_BYTES))
      this.#frameBytes -= this.#frames.shift()?.sent.length ?? 0;
  }

  /** Reads one slice of the snapshot that is being built. */
  build(): void {
    const snapshot = this.#snapshot;
    if (snapshot === undefined || !this.isBuilding) return;
    if (this.log.floor > Math.max(snapshot.position, snapshot.floor)) {
      snapshot.isVoid = true;
      return;
    }
    const { entries, position } = this.log.read(snapshot.position, {
      records: this.#limits.slice,
      bytes: this.#limits.partBytes,
    });
    for (const entry of entries) {
      if (entry.text === undefined && entry.seq <= snapshot.beganAt) continue;
      this.#pending.push(entry);
      this.#pendingBytes += entry.key.length + (entry.text?.length ?? 0);
    }
    snapshot.position = position;
    const isDone = position === this.log.head;
    if (!isDone && this.#pendingBytes < this.#limits.partBytes) return;
    const changed = isDone ? this.#ports.changed() : undefined;
    snapshot.parts.push(
      this.#ports.encode({ isFirst: snapshot.parts.length === 0, entries: this.#pending, position, changed }),
    );
    [this.#pending, this.#pendingBytes] = [[], 0];
    if (isDone) snapshot.builtMs = this.#ports.monotonic();
  }

  /**
   * Returns what the follower is sent next, and moves its cursor; undefined when there is nothing, or nothing yet.
   * A follower that cannot catch up any more is sent another snapshot.
   */
  next(cursor: TopicCursor<F>): F | undefined {
    for (;;) {
      if (cursor.completeAt === Infinity && cursor.snapshot === undefined) this.#beginSnapshot(cursor);
      const { snapshot } = cursor;
      if (snapshot !== undefined) {
        const part = snapshot.parts[cursor.sentParts];
        if (part !== undefined && !snapshot.isVoid) {
          cursor.sentParts += 1;
          return part;
        }
        if (snapshot.builtMs === undefined && !snapshot.isVoid) return undefined;
        cursor.snapshot = undefined;
        if (snapshot.isVoid) {
          cursor.completeAt = Infinity;
          continue;
        }
        cursor.position = snapshot.position;
        cursor.floor = snapshot.floor;
      }
      if (cursor.position >= this.#flushed) {
        // Not as soon as the position is reached: a record may have moved behind it.
        if (cursor.completeAt === undefined || this.#flushed < cursor.completeAt) return undefined;
        cursor.completeAt = undefined;
        return this.#complete;
      }
      const frame = this.#frameAfter(cursor.position) ?? this.#readFor(cursor);
      if (frame === undefined) {
        cursor.completeAt = Infinity;
        continue;
      }
      cursor.position = frame.to;
      return frame.sent;
    }
  }

  #beginSnapshot(cursor: TopicCursor<F>): void {
    const current = this.#snapshot;
    const snapshot = current !== undefined && this.#isReusable(current) ? current : this.#newSnapshot();
    if (this.#ports.buildsAtOnce === true) while (this.isBuilding) this.build();
    this.counts.sent += 1;
    cursor.snapshot = snapshot;
    cursor.sentParts = 0;
    cursor.completeAt = this.log.head;
  }

  #newSnapshot(): Snapshot<F> {
    this.counts.built += 1;
    if (this.#snapshot?.builtMs === undefined && this.#snapshot !== undefined) this.#snapshot.isVoid = true;
    [this.#pending, this.#pendingBytes] = [[], 0];
    const { floor, head } = this.log;
    this.#snapshot = { parts: [], position: 0, beganAt: head, floor, builtMs: undefined, isVoid: false };
    return this.#snapshot;
  }

  #isReusable({ position, floor, builtMs, isVoid }: Snapshot<F>): boolean {
    if (isVoid || this.log.floor > Math.max(position, floor)) return false;
    if (builtMs === undefined || this.#ports.monotonic() - builtMs <= SNAPSHOT_MS) return true;
    return (this.log.head - position) * CHANGED_SHARE <= this.log.size;
  }

  /** Returns the kept frame that leads on from the position, with no gap. */
  #frameAfter(position: number): Frame<F> | undefined {
    const frame = this.#frames.find(({ to }) => to > position);
    return frame === undefined || frame.from > position ? undefined : frame;
  }

  #readFor({ position, floor }: TopicCursor<F>): Frame<F> | undefined {
    if (this.log.floor > Math.max(position, floor)) return undefined;
    const known = this.#chunks.get(position);
    if (known !== undefined) return known;
    const [oldest] = this.#chunks.keys();
    if (oldest !== undefined && this.#chunks.size >= MOST_CHUNKS) this.#chunks.delete(oldest);
    const chunk = this.#read(position);
    if (this.#ports.buildsAtOnce !== true) this.#chunks.set(position, chunk);
    return chunk;
  }

  #read(from: number): Frame<F> {
    const { entries, position } = this.log.read(from, { records: Infinity, bytes: this.#limits.partBytes });
    const changed = position === this.log.head ? this.#ports.changed() : undefined;
    return { from, to: position, sent: this.#ports.encode({ isFirst: false, entries, position, changed }) };
  }
}
