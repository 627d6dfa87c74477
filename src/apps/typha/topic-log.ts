/** Deletions that a log remembers, unless told otherwise, so that a follower that is behind learns of them. */
const MOST_DELETIONS = 10_000;
const LONGEST_MS = 600_000;

/** The last change of one record. */
export interface LogEntry {
  readonly key: string;
  /** Numbers the changes of the log from 1. */
  readonly seq: number;
  /** The text of the record; undefined when it was deleted. */
  readonly text: string | undefined;
}

interface KeptEntry extends LogEntry {
  /** Whether a later entry of the key has replaced it. */
  isReplaced: boolean;
  readonly atMs: number;
}

export interface LogLimits {
  readonly mostDeletions?: number;
  readonly longestMs?: number;
}

/**
 * The records of a topic in the order of their last change, each in its last state. A reader is a position: the number of a
 * change up to which it has read all entries. A reader that has read all entries has all records.
 */
export class TopicLog {
  readonly #limits: Required<LogLimits>;
  readonly #entries = new Map<string, KeptEntry>();
  /** By number. Those that were replaced are removed when they are many. */
  #order: KeptEntry[] = [];
  #replaced = 0;
  #deletions: KeptEntry[] = [];
  #deleted = 0;
  #head = 0;
  #floor = 0;
  #bytes = 0;

  constructor({ mostDeletions = MOST_DELETIONS, longestMs = LONGEST_MS }: LogLimits = {}) {
    this.#limits = { mostDeletions, longestMs };
  }

  /** The number of the last change; 0 before the first. */
  get head(): number {
    return this.#head;
  }

  /** Of deletions up to this number some are forgotten: a reader at a lower position cannot catch up. */
  get floor(): number {
    return this.#floor;
  }

  get size(): number {
    return this.#entries.size - this.#deleted;
  }

  /** Length of the texts of all records. */
  get bytes(): number {
    return this.#bytes;
  }

  has(key: string): boolean {
    return this.#entries.get(key)?.text !== undefined;
  }

  keys(): readonly string[] {
    return [...this.#entries.values()].flatMap(({ key, text }) => (text === undefined ? [] : [key]));
  }

  /** Returns whether the text differs from the one before. */
  put(key: string, text: string, nowMs: number): boolean {
    if (this.#entries.get(key)?.text === text) return false;
    this.#add(key, text, nowMs);
    return true;
  }

  /** Returns whether the record existed. */
  delete(key: string, nowMs: number): boolean {
    if (this.#entries.get(key)?.text === undefined) return false;
    this.#deletions.push(this.#add(key, undefined, nowMs));
    this.#forgetDeletions(nowMs);
    return true;
  }

  /** Returns the next entries after the position, and the position after them; at the end that is the head. */
  read(
    after: number,
    most: { readonly records: number; readonly bytes: number },
  ): { readonly entries: readonly LogEntry[]; readonly position: number } {
    const entries: LogEntry[] = [];
    let bytes = 0;
    for (let index = this.#indexAfter(after); index < this.#order.length; index += 1) {
      const entry = this.#order[index];
      if (entry === undefined || entry.isReplaced) continue;
      bytes += entry.key.length + (entry.text?.length ?? 0);
      if (entries.length >= most.records || (entries.length > 0 && bytes > most.bytes))
        return { entries, position: entries.at(-1)?.seq ?? after };
      entries.push(entry);
    }
    return { entries, position: this.#head };
  }

  #add(key: string, text: string | undefined, atMs: number): KeptEntry {
    const before = this.#entries.get(key);
    this.#bytes += (text?.length ?? 0) - (before?.text?.length ?? 0);
    this.#deleted += (text === undefined ? 1 : 0) - (before !== undefined && before.text === undefined ? 1 : 0);
    if (before !== undefined) this.#replace(before);
    this.#head += 1;
    const entry = { key, seq: this.#head, text, atMs, isReplaced: false };
    this.#entries.set(key, entry);
    this.#order.push(entry);
    return entry;
  }

  #replace(entry: KeptEntry): void {
    entry.isReplaced = true;
    this.#replaced += 1;
    if (this.#replaced <= 1024 + this.#entries.size) return;
    this.#order = this.#order.filter(({ isReplaced }) => !isReplaced);
    this.#replaced = 0;
  }

  #forgetDeletions(nowMs: number): void {
    const { mostDeletions, longestMs } = this.#limits;
    if (this.#deletions.length > 1024 + 2 * this.#deleted)
      this.#deletions = this.#deletions.filter(({ isReplaced }) => !isReplaced);
    let count = 0;
    for (const entry of this.#deletions) {
      const isKept = this.#deleted <= mostDeletions && nowMs - entry.atMs <= longestMs;
      if (!entry.isReplaced && isKept) break;
      count += 1;
      if (entry.isReplaced) continue;
      this.#floor = entry.seq;
      this.#deleted -= 1;
      this.#entries.delete(entry.key);
      this.#replace(entry);
    }
    this.#deletions.splice(0, count);
  }

  /** Returns the index of the first entry after the position. */
  #indexAfter(position: number): number {
    let [low, high] = [0, this.#order.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#order[middle]?.seq ?? Infinity) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** What a source lists is put into. */
interface Listing<T> {
  keys(): Iterable<string>;
  put(key: string, entry: T, nowMs: number): unknown;
  delete(key: string, nowMs: number): unknown;
}

/** All records of a source, listed again: the log gets what differs. Until the end, nothing is deleted. */
export class Relist<T = string> {
  readonly #log: Listing<T>;
  readonly #listed = new Set<string>();

  constructor(log: Listing<T>) {
    this.#log = log;
  }

  put(key: string, entry: T, nowMs: number): void {
    this.#listed.add(key);
    this.#log.put(key, entry, nowMs);
  }

  end(nowMs: number): void {
    for (const key of this.#log.keys()) if (!this.#listed.has(key)) this.#log.delete(key, nowMs);
  }
}
