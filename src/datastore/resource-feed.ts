import { isDeepStrictEqual } from 'node:util';
import type { AnyResource, ResourceKind, ResourceOf } from '../model/kinds.ts';
import { type ResourceId, showResourceId } from '../model/resource-id.ts';
import { findBuiltIn, withBuiltIns } from './built-in.ts';
import { type Seen, unversioned } from './seen.ts';
import type { ResourceChange } from './watch-store.ts';

/** A resource, and what there is of it now. */
export interface Sighting<K extends ResourceKind> {
  readonly which: ResourceId<K>;
  readonly seen: Seen<ResourceOf<K>>;
}

/** Turns records of one kind that a datastore finds into what a watcher is told. It tells nothing twice. */
export class ResourceFeed<K extends ResourceKind> {
  readonly #kind: K;
  readonly #known = new Map<string, Seen<ResourceOf<K>> & { readonly which: ResourceId<K> }>();

  constructor(kind: K) {
    this.#kind = kind;
  }

  /** Everything found so far, and what is built in, which never changes. */
  all(): ResourceChange<K> {
    const known = [...this.#known.values()];
    return {
      kind: 'all',
      resources: withBuiltIns(
        this.#kind,
        known.flatMap(({ value }) => value ?? []),
      ),
      problems: known.flatMap(({ problem }) => problem ?? []),
    };
  }

  /** What differs from before when these are all there are. */
  replace(all: readonly Sighting<K>[]): ResourceChange<K>[] {
    const there = new Set(all.map(({ which }) => showResourceId(which)));
    const gone = [...this.#known].filter(([name]) => !there.has(name)).map(([, { which }]) => ({ which, seen: {} }));
    return [...gone, ...all].flatMap((sighting) => this.take(sighting));
  }

  take({ which, seen: { value, problem } }: Sighting<K>): ResourceChange<K>[] {
    if (findBuiltIn(which) !== undefined) return [];
    const name = showResourceId(which);
    const before = this.#known.get(name);
    if (value === undefined && problem === undefined) this.#known.delete(name);
    else this.#known.set(name, { which, value, problem });
    if (problem === before?.problem && isSame(value, before?.value)) return [];
    const also = problem === undefined ? {} : { problem };
    return [value === undefined ? { kind: 'gone', which, ...also } : { kind: 'put', resource: value, ...also }];
  }
}

function isSame(a: AnyResource | undefined, b: AnyResource | undefined): boolean {
  return a === undefined || b === undefined ? a === b : isDeepStrictEqual(unversioned(a), unversioned(b));
}
