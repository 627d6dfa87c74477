import { isDeepStrictEqual } from 'node:util';
import { pack, Packed } from '../base/packed.ts';
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
  readonly #records = new Map<string, Kept>();
  #version: string | undefined;

  /** The version of the last event; undefined before the first one. */
  get version(): string | undefined {
    return this.#version;
  }

  *records(): Iterable<FollowedRecord> {
    for (const kept of this.#records.values()) yield whole(kept);
  }

  apply(event: FollowEvent): readonly Delta[] {
    this.#version = event.version;
    if (event.kind === 'bookmark') return [];
    if (event.kind === 'changes') return event.records.flatMap((record) => this.#set(record));
    const listed = new Set(event.records.map(followedKey));
    const deleted = [...this.#records]
      .filter(([key]) => !listed.has(key))
      .map(([, { record }]) => deletedRecord(record));
    return [...deleted, ...event.records].flatMap((record) => this.#set(record));
  }

  #set(after: FollowedRecord): readonly Delta[] {
    const key = followedKey(after);
    const before = this.#records.get(key);
    const isDeleted = after.value === undefined && after.problem === undefined;
    const kept = keep(after);
    if (before === undefined ? isDeleted : isSame(before, kept)) return [];
    if (isDeleted) this.#records.delete(key);
    else this.#records.set(key, kept);
    return [{ before: before && whole(before), after }];
  }
}

/** A record; the large value of one beside it. */
interface Kept {
  readonly record: FollowedRecord;
  readonly packed: Packed<unknown> | undefined;
}

/** Resources are JSON, and of the size that people give them. */
function keep(record: FollowedRecord): Kept {
  const packed = record.kind === 'resource' && record.value !== undefined ? pack(record.value) : undefined;
  if (!(packed instanceof Packed)) return { record, packed: undefined };
  const { value: _, ...rest } = record;
  return { record: rest, packed };
}

function whole({ record, packed }: Kept): FollowedRecord {
  return packed === undefined ? record : ({ ...record, value: packed.value() } as FollowedRecord);
}

function isSame(before: Kept, after: Kept): boolean {
  const [a, b] = [before.record, after.record];
  // The version of a route may be that of its block, which changes with every pod. Commits need the versions of all others.
  const isSameVersion = a.kind === 'route' || a.version === b.version;
  const hasSameValue = isDeepStrictEqual([a.value, before.packed], [b.value, after.packed]);
  return isSameVersion && a.problem === b.problem && hasSameValue;
}
