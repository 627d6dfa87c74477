import type { Pieces } from '../../base/pieces.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { ListOptions } from '../../kube/orch-api.ts';
import type { Collection } from '../../kube/paths.ts';
import type { WatchEvent } from '../../kube/watch.ts';

/** One watch, and what its objects mean. An object may hold several records, each with a name of its own, or none. */
export interface Source<C> {
  readonly collection: Collection;
  readonly options: ListOptions;
  readonly namesIn: (object: ApiObject) => readonly string[];
  /** Takes what one record of an object says now; without an object, the record is gone. */
  readonly take: (name: string, object: ApiObject | undefined) => readonly C[];
  /** What follows from one event as a whole. */
  readonly settle?: () => readonly C[];
}

/** The names of what one watch has told, so that what is missing from its next beginning is gone. */
export class FollowedObjects<C> {
  readonly source: Source<C>;
  #names = new Map<string, readonly string[]>();
  #isComplete = false;

  constructor(source: Source<C>) {
    this.source = source;
  }

  get isComplete(): boolean {
    return this.#isComplete;
  }

  *apply(event: WatchEvent): Pieces<C[]> {
    const changes: C[] = [];
    if (event.kind === 'all') {
      const there = new Set(event.objects.map(keyOf));
      for (const key of [...this.#names.keys()].filter((known) => !there.has(known))) {
        yield;
        changes.push(...this.#set(key, []));
      }
      for (const object of event.objects) {
        yield;
        changes.push(...this.#put(object));
      }
      this.#isComplete = true;
    } else {
      changes.push(...(event.kind === 'gone' ? this.#set(keyOf(event.object), []) : this.#put(event.object)));
    }
    return [...changes, ...(this.source.settle?.() ?? [])];
  }

  #put(object: ApiObject): C[] {
    const names = this.source.namesIn(object);
    return [...this.#set(keyOf(object), names), ...names.flatMap((name) => this.source.take(name, object))];
  }

  /** Notes the records of an object; those it had before and has no more are gone. */
  #set(key: string, names: readonly string[]): C[] {
    const gone = (this.#names.get(key) ?? []).filter((name) => !names.includes(name));
    if (names.length === 0) this.#names.delete(key);
    else this.#names.set(key, names);
    return gone.flatMap((name) => this.source.take(name, undefined));
  }
}

function keyOf({ metadata }: ApiObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}
