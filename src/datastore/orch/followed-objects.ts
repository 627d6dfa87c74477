import { never } from '../../base/errors.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { ListOptions } from '../../kube/orch-api.ts';
import type { Collection } from '../../kube/paths.ts';
import type { WatchEvent } from '../../kube/watch.ts';
import type { FollowedRecord } from '../follow.ts';

/** One watch and the records in its objects. */
export interface Source {
  readonly collection: Collection;
  readonly options: ListOptions;
  readonly recordsIn: (object: ApiObject) => readonly FollowedRecord[];
  /** Whether an object shows all of its records, including removed ones, so that the watch can resume. */
  readonly canResume: boolean;
}

/** The records of one watch by object. What is missing from the next list was deleted. */
export class FollowedObjects {
  readonly source: Source;
  readonly #records = new Map<string, readonly FollowedRecord[]>();
  #isListed = false;

  constructor(source: Source) {
    this.source = source;
  }

  get isListed(): boolean {
    return this.#isListed;
  }

  *records(): Generator<FollowedRecord> {
    for (const records of this.#records.values()) yield* records;
  }

  /** Returns the records that may have changed. */
  apply(event: WatchEvent): readonly FollowedRecord[] {
    switch (event.kind) {
      case 'bookmark':
        return [];
      case 'changed':
        return this.#put(event.object);
      case 'gone':
        return this.#delete(keyOf(event.object), this.source.recordsIn(event.object));
      case 'all': {
        this.#isListed = true;
        const listed = new Set(event.objects.map(keyOf));
        const deleted = [...this.#records.keys()].filter((key) => !listed.has(key));
        return [
          ...deleted.flatMap((key) => this.#delete(key, [])),
          ...event.objects.flatMap((object) => this.#put(object)),
        ];
      }
      default:
        return never(event);
    }
  }

  #put(object: ApiObject): readonly FollowedRecord[] {
    const key = keyOf(object);
    const before = this.#records.get(key) ?? [];
    const records = this.source.recordsIn(object);
    if (records.length === 0) this.#records.delete(key);
    else this.#records.set(key, records);
    const keys = new Set(records.map((record) => record.key));
    return [...before.filter((record) => !keys.has(record.key)).map(deletionOf), ...records];
  }

  #delete(key: string, last: readonly FollowedRecord[]): readonly FollowedRecord[] {
    const records = this.#records.get(key) ?? last;
    this.#records.delete(key);
    return records.map(deletionOf);
  }
}

function deletionOf({ value: _value, problem: _problem, ...record }: FollowedRecord): FollowedRecord {
  return record;
}

function keyOf({ metadata }: ApiObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}
