import { reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { keepRunning, type RetryPorts } from '../base/back-off.ts';
import { type ApiObject, objectKey } from './objects.ts';
import type { ListOptions, OrchApi } from './orch-api.ts';
import type { Collection } from './paths.ts';
import { API_LIMITS } from './requester.ts';
import type { SharedEvent } from './shared-watches.ts';
import type { StreamState } from './watch.ts';

/** Missed changes arrive right after the stream opens. Until then the cache may be stale. */
const CATCH_UP_MS = 1000;

/** The objects of one kind to cache, and what is kept of each. */
export interface CachedKind<T> {
  readonly collection: Collection;
  readonly options: ListOptions;
  readonly keep: (object: ApiObject) => T;
}

export interface MirrorPorts extends RetryPorts {
  readonly api: OrchApi;
  readonly log: Log;
}

/** Caches objects of one kind from a watch, and tracks whether the cache is current. */
export class ObjectMirror<T> {
  readonly #ports: MirrorPorts;
  readonly #mirrored: CachedKind<T>;
  /** By `objectKey`. */
  readonly #cached = new Map<string, T>();
  /** When the cache became current, on the monotonic clock. */
  #currentFrom = Number.POSITIVE_INFINITY;
  #receivedAtMs = Number.NEGATIVE_INFINITY;

  constructor(ports: MirrorPorts, mirrored: CachedKind<T>) {
    this.#ports = ports;
    this.#mirrored = mirrored;
  }

  /** Returns the cached object; undefined also while the cache may be outdated. */
  find(namespace: string, name: string): T | undefined {
    const now = this.#ports.clock.monotonic();
    const isCurrent = now >= this.#currentFrom && now - this.#receivedAtMs < API_LIMITS.silenceMs;
    return isCurrent ? this.#cached.get(`${namespace}/${name}`) : undefined;
  }

  /** Watches until the signal aborts, and restarts the watch after failures. */
  async run(signal: AbortSignal): Promise<void> {
    const { api, log } = this.#ports;
    const { collection, options } = this.#mirrored;
    const onStream = (state: StreamState): void => this.#note(state);
    const work = async (): Promise<void> => {
      try {
        for await (const event of api.sharedWatch(collection, { ...options, onStream }, signal)) this.#apply(event);
      } finally {
        this.#forget();
      }
    };
    const onFailure = (cause: unknown, failures: number): void => {
      if (failures === 1) log.warning('watch failed', { kind: collection.plural, reason: reasonOf(cause) });
    };
    await keepRunning(this.#ports, { work, onFailure }, signal);
  }

  #apply(event: SharedEvent): void {
    if (event.kind === 'all') {
      for (const object of event.objects) this.#put(object);
      return;
    }
    for (const { before, after } of event.changes) {
      if (after !== undefined) this.#put(after);
      else if (before !== undefined) this.#cached.delete(objectKey(before));
    }
  }

  #put(object: ApiObject): void {
    this.#cached.set(objectKey(object), this.#mirrored.keep(object));
  }

  #note(state: StreamState): void {
    const now = this.#ports.clock.monotonic();
    if (state === 'broken') this.#currentFrom = Number.POSITIVE_INFINITY;
    else this.#receivedAtMs = now;
    if (state === 'opened') this.#currentFrom = now + CATCH_UP_MS;
  }

  #forget(): void {
    this.#cached.clear();
    this.#currentFrom = Number.POSITIVE_INFINITY;
  }
}
