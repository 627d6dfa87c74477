import { isDeepStrictEqual } from 'node:util';
import { Channel } from '../base/channel.ts';
import { never } from '../base/errors.ts';
import { type ApiObject, objectKey } from './objects.ts';
import type { StreamState, WatchEvent } from './watch.ts';

/** Change of one object: new without `before`, deleted without `after`. */
export interface ObjectChange {
  readonly before: ApiObject | undefined;
  readonly after: ApiObject | undefined;
}

export type SharedEvent =
  /** All objects. Always the first, and once. */
  | { readonly kind: 'all'; readonly objects: readonly ApiObject[]; readonly version: string }
  /** No change is repeated. Without changes it is a bookmark. */
  | { readonly kind: 'changes'; readonly changes: readonly ObjectChange[]; readonly version: string };

/** Events that another process sends of its watch: objects, changes, and when a stream opens or breaks. */
export type RelayedEvent = SharedEvent | { readonly kind: 'stream'; readonly state: 'opened' | 'broken' };

/** Objects that another process watches and sends. */
export interface Relay {
  /** All objects and their version; undefined while they may be outdated. */
  readonly current: { readonly objects: readonly ApiObject[]; readonly version: string } | undefined;
  /** Sets the one listener. */
  listen(listener: RelayListener | undefined): void;
}

export interface RelayListener {
  readonly onEvent: (event: RelayedEvent) => void;
  /** The objects may be outdated from now on. */
  readonly onLost: () => void;
}

/** Starts the watch behind a shared watch: after the version `from`, or with a list. */
export type StartWatch = (
  options: {
    readonly from: string | undefined;
    /** Whether a list may not be older than the call. */
    readonly isFresh: boolean;
    readonly onStream: (state: StreamState) => void;
  },
  signal: AbortSignal,
) => AsyncIterable<WatchEvent>;

export interface WatchedObjects {
  readonly start: StartWatch;
  /** Returns the part of an object that followers need. */
  readonly trim: (object: ApiObject) => ApiObject;
}

export interface JoinOptions {
  readonly onStream: (state: StreamState) => void;
  /** Whether the objects are listed again for this follower, so that nothing is older than its request. */
  readonly isFresh: boolean;
}

/**
 * Lets all followers of the same objects in a process share one list and one watch. It starts with the first follower
 * and ends with the last. Objects are cached, so that a further follower needs no list. While another process relays the
 * objects, there is no watch at all.
 */
export class SharedWatches {
  readonly #watches = new Map<string, SharedWatch>();
  readonly #relays = new Map<string, Relay>();

  /** Makes watches of that key that start from now on take their objects from the relay whenever it is current. */
  relay(key: string, relay: Relay): void {
    this.#relays.set(key, relay);
  }

  /** Joins the watch of that key, or starts it. Throws what the watch throws, to all followers at once. */
  async *follow(
    key: string,
    { onStream, isFresh, ...watched }: WatchedObjects & JoinOptions,
    signal: AbortSignal,
  ): AsyncGenerator<SharedEvent> {
    const onEnd = (): unknown => this.#watches.delete(key);
    const watch = this.#watches.get(key) ?? new SharedWatch(watched, { relay: this.#relays.get(key), onEnd });
    this.#watches.set(key, watch);
    yield* watch.follow({ onStream, isFresh }, signal);
  }
}

interface Follower {
  readonly events: Channel<SharedEvent>;
  readonly onStream: (state: StreamState) => void;
  /** Whether it has not received all objects yet. */
  isWaiting: boolean;
}

class SharedWatch {
  readonly #watched: WatchedObjects;
  readonly #relay: Relay | undefined;
  readonly #onEnd: () => void;
  readonly #followers = new Set<Follower>();
  readonly #objects = new Map<string, ApiObject>();
  /** Undefined until the objects are listed. */
  #version: string | undefined;
  /** The version of the last list or change. A bookmark may be ahead of a relay that has missed nothing. */
  #changedAt: string | undefined;
  #isOpen = false;
  /** Ends the own watch. Undefined while the objects come from the relay. */
  #own: AbortController | undefined;
  #isListing = false;
  #isOver = false;

  constructor(
    watched: WatchedObjects,
    { relay, onEnd }: { readonly relay: Relay | undefined; readonly onEnd: () => void },
  ) {
    this.#watched = watched;
    this.#relay = relay;
    this.#onEnd = onEnd;
    relay?.listen({
      onEvent: (event) => this.#takeRelayed(event),
      onLost: () => {
        if (this.#own === undefined) this.#watch(this.#version);
      },
    });
  }

  async *follow({ onStream, isFresh }: JoinOptions, signal: AbortSignal): AsyncGenerator<SharedEvent> {
    const events = new Channel<SharedEvent>();
    const follower: Follower = { events, onStream, isWaiting: true };
    const close = (): void => events.close();
    signal.addEventListener('abort', close, { once: true });
    if (signal.aborted) close();
    this.#followers.add(follower);
    this.#admit(follower, isFresh);
    try {
      yield* events;
    } finally {
      signal.removeEventListener('abort', close);
      this.#followers.delete(follower);
      if (this.#followers.size === 0) this.#end();
    }
  }

  #admit(follower: Follower, isFresh: boolean): void {
    if (this.#isOpen) follower.onStream('opened');
    if (isFresh) {
      this.#watch(undefined, { isFresh });
      return;
    }
    if (this.#version === undefined) {
      if (this.#own === undefined && !this.#switchToRelay()) this.#watch(undefined);
    } else if (!this.#isListing) {
      follower.isWaiting = false;
      follower.events.push(this.#all(this.#version));
    }
  }

  /** Starts the own watch, in place of the relay or of the own watch before. */
  #watch(from: string | undefined, { isFresh } = { isFresh: false }): void {
    this.#own?.abort();
    if (this.#isOpen) this.#note('broken');
    this.#own = new AbortController();
    this.#isListing = from === undefined;
    void this.#run({ from, isFresh }, this.#own.signal);
  }

  async #run(
    begin: { readonly from: string | undefined; readonly isFresh: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const onStream = (state: StreamState): void => {
      if (!signal.aborted) this.#note(state);
    };
    try {
      for await (const event of this.#watched.start({ ...begin, onStream }, signal)) {
        if (signal.aborted) return;
        this.#isListing = false;
        this.#apply(event);
        this.#switchToRelay();
      }
    } catch (cause) {
      if (signal.aborted) return;
      this.#end();
      for (const { events } of this.#followers) events.fail(cause);
    }
  }

  #takeRelayed(event: RelayedEvent): void {
    if (this.#own !== undefined) {
      this.#switchToRelay();
      return;
    }
    if (event.kind === 'stream') {
      this.#note(event.state);
      return;
    }
    if ((event.kind === 'all' || event.changes.length > 0) && !isAtLeast(event.version, this.#changedAt)) {
      // An older state: the API itself tells whether it was restored.
      this.#watch(this.#version);
      return;
    }
    this.#note('received');
    if (event.kind === 'all' || event.changes.length > 0) this.#apply(event);
    else this.#version = event.version;
  }

  /**
   * Ends the own watch if the relay is current and has everything that this watch has reported: its version is at least that
   * of the last list or change. The version of a list may be far ahead of the last change; then equal objects show it.
   */
  #switchToRelay(): boolean {
    const relayed = this.#relay?.current;
    if (relayed === undefined || this.#isListing) return false;
    if (!isAtLeast(relayed.version, this.#changedAt) && !this.#hasExactly(relayed.objects)) return false;
    this.#own?.abort();
    this.#own = undefined;
    this.#apply({ kind: 'all', ...relayed });
    this.#note('opened');
    return true;
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#relay?.listen(undefined);
    this.#own?.abort();
    this.#onEnd();
  }

  #note(state: StreamState): void {
    this.#isOpen = state !== 'broken';
    for (const { onStream } of this.#followers) onStream(state);
  }

  #apply(event: WatchEvent | SharedEvent): void {
    const { version } = event;
    this.#version = version;
    if (event.kind !== 'bookmark') this.#changedAt = version;
    const changes = this.#changesOf(event);
    for (const follower of this.#followers) {
      follower.events.push(follower.isWaiting ? this.#all(version) : { kind: 'changes', changes, version });
      follower.isWaiting = false;
    }
  }

  #changesOf(event: WatchEvent | SharedEvent): readonly ObjectChange[] {
    switch (event.kind) {
      case 'bookmark':
        return [];
      case 'changed':
        return this.#put(event.object);
      case 'deleted':
        return this.#delete(objectKey(event.object));
      case 'changes':
        return event.changes.flatMap(({ before, after }) => {
          if (after !== undefined) return this.#put(after);
          return before === undefined ? [] : this.#delete(objectKey(before));
        });
      case 'all': {
        const listed = new Set(event.objects.map(objectKey));
        const deleted = [...this.#objects.keys()].filter((key) => !listed.has(key));
        return [...deleted.flatMap((key) => this.#delete(key)), ...event.objects.flatMap((each) => this.#put(each))];
      }
      default:
        return never(event);
    }
  }

  #put(object: ApiObject): readonly ObjectChange[] {
    const key = objectKey(object);
    const before = this.#objects.get(key);
    const after = this.#watched.trim(object);
    // Not the version alone: a restored API server uses versions again.
    if (isDeepStrictEqual(before, after)) return [];
    this.#objects.set(key, after);
    return [{ before, after }];
  }

  #delete(key: string): readonly ObjectChange[] {
    const before = this.#objects.get(key);
    this.#objects.delete(key);
    return before === undefined ? [] : [{ before, after: undefined }];
  }

  #hasExactly(objects: readonly ApiObject[]): boolean {
    if (objects.length !== this.#objects.size) return false;
    return objects.every((object) => isDeepStrictEqual(this.#objects.get(objectKey(object)), object));
  }

  #all(version: string): SharedEvent {
    return { kind: 'all', objects: [...this.#objects.values()], version };
  }
}

/** Versions are numbers of the same store of records behind the API, as every release of it has them. */
function isAtLeast(version: string, other: string | undefined): boolean {
  return other === undefined || Number(version) >= Number(other);
}
