import { isDeepStrictEqual } from 'node:util';
import { deletedRecord, type FollowedRecord, followedKey, type FollowEvent } from '../datastore/follow.ts';

/** Change of one record. */
export interface Delta {
  /** Undefined when the record is new. */
  readonly before: FollowedRecord | undefined;
  /** Has neither value nor problem when the record was deleted. */
  readonly after: FollowedRecord;
}

/** The records of the queries of one stream: applies its events and returns what differs, each difference once. */
export class RecordCache {
  readonly #records = new Map<string, FollowedRecord>();
  #version: string | undefined;

  /** The version of the last event; undefined before the first one. */
  get version(): string | undefined {
    return this.#version;
  }

  records(): Iterable<FollowedRecord> {
    return this.#records.values();
  }

  apply(event: FollowEvent): readonly Delta[] {
    this.#version = event.version;
    if (event.kind === 'bookmark') return [];
    if (event.kind === 'changes') return event.records.flatMap((record) => this.#set(record));
    const listed = new Set(event.records.map(followedKey));
    const deleted = [...this.#records].filter(([key]) => !listed.has(key)).map(([, record]) => deletedRecord(record));
    return [...deleted, ...event.records].flatMap((record) => this.#set(record));
  }

  #set(after: FollowedRecord): readonly Delta[] {
    const key = followedKey(after);
    const before = this.#records.get(key);
    const isDeleted = after.value === undefined && after.problem === undefined;
    if (before === undefined ? isDeleted : isSame(before, after)) return [];
    if (isDeleted) this.#records.delete(key);
    else this.#records.set(key, after);
    return [{ before, after }];
  }
}

function isSame(a: FollowedRecord, b: FollowedRecord): boolean {
  // The version of a route may be that of its block, which changes with every pod. Commits need the versions of all others.
  const isSameVersion = a.kind === 'route' || a.version === b.version;
  return isSameVersion && a.problem === b.problem && isDeepStrictEqual(a.value, b.value);
}
