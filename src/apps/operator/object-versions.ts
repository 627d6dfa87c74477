import { keepRunning, type RetryPorts } from '../../base/back-off.ts';
import { reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { objectKey } from '../../kube/objects.ts';
import type { ListOptions, OrchApi } from '../../kube/orch-api.ts';
import { type Collection, collectionPath } from '../../kube/paths.ts';
import type { WatchEvent } from '../../kube/watch.ts';
import { watchIfServed } from '../../kube/watch-if-served.ts';
import { supervise } from '../../runtime/supervise.ts';

/** Objects of one kind that are watched. */
export interface WatchedKind {
  readonly collection: Collection;
  readonly options: ListOptions;
  /** Names that matter; all of them unless given. */
  readonly names?: ReadonlySet<string>;
  /** `count`: only new and deleted objects cause a run, for objects that change often. */
  readonly triggers: 'every change' | 'count';
  /** Whether it is no problem that an API server does not serve the kind. */
  readonly mayBeUnserved?: true;
}

export interface VersionPorts extends RetryPorts {
  readonly api: OrchApi;
  readonly log: Log;
}

/** The versions of watched objects, from watches of their metadata. */
export class ObjectVersions {
  readonly #ports: VersionPorts;
  readonly #kinds: readonly WatchedKind[];
  readonly #onChange: () => void;
  readonly #versions = new Map<string, ReadonlyMap<string, string>>();
  readonly #problems = new Map<string, string>();

  constructor(ports: VersionPorts, kinds: readonly WatchedKind[], onChange: () => void) {
    this.#ports = ports;
    this.#kinds = kinds;
    this.#onChange = onChange;
  }

  /** Returns the last observed version; undefined for an object that was not observed. */
  find(collection: Collection, name: string): string | undefined {
    const { namespace = '' } = collection;
    return this.#versions.get(collectionPath(collection))?.get(`${namespace}/${name}`);
  }

  /** Returns the keys of all observed objects of a kind; undefined before they were listed. */
  keys(collection: Collection): readonly string[] | undefined {
    const known = this.#versions.get(collectionPath(collection));
    return known === undefined ? undefined : [...known.keys()];
  }

  /** Returns why changes of some kinds are not noticed at once, a sentence each. */
  problems(): readonly string[] {
    return [...this.#problems].map(([plural, reason]) => `Changes of ${plural} are noticed late: ${reason}`);
  }

  /** Watches until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await supervise(
      this.#kinds.map(
        (kind) =>
          async (over: AbortSignal): Promise<void> =>
            this.#watch(kind, over),
      ),
      signal,
    );
  }

  async #watch(kind: WatchedKind, signal: AbortSignal): Promise<void> {
    const { api, log, clock } = this.#ports;
    const { collection, options, mayBeUnserved = false } = kind;
    const onUnserved = (): void => void this.#problems.delete(collection.plural);
    const watch = async (): Promise<void> => {
      for await (const event of api.watch(collection, { ...options, only: 'names' }, signal)) {
        this.#problems.delete(collection.plural);
        if (event.kind !== 'bookmark') this.#note(kind, event);
      }
    };
    const onFailure = (cause: unknown, failures: number): void => {
      if (failures === 1) log.warning('watch failed', { kind: collection.plural, reason: reasonOf(cause) });
      this.#problems.set(collection.plural, reasonOf(cause));
    };
    const work = mayBeUnserved ? async () => watchIfServed(clock, { watch, onUnserved }, signal) : watch;
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }

  #note({ collection, names, triggers }: WatchedKind, event: NotedEvent): void {
    const path = collectionPath(collection);
    const before = this.#versions.get(path) ?? new Map<string, string>();
    const objects = (event.kind === 'all' ? event.objects : [event.object]).filter(
      ({ metadata }) => names?.has(metadata.name) ?? true,
    );
    if (event.kind !== 'all' && objects.length === 0) return;
    const noted = new Map(
      objects.map((object): [string, string] => [objectKey(object), object.metadata.resourceVersion ?? '']),
    );
    const after = new Map(event.kind === 'all' ? noted : [...before, ...noted]);
    if (event.kind === 'deleted') for (const key of noted.keys()) after.delete(key);
    this.#versions.set(path, after);
    if (triggers === 'every change' || event.kind === 'all' || after.size !== before.size) this.#onChange();
  }
}

type NotedEvent = Exclude<WatchEvent, { readonly kind: 'bookmark' }>;
