import { isDeepStrictEqual } from 'node:util';
import { Channel } from '../base/channel.ts';
import { never } from '../base/errors.ts';
import type { ApiObject } from './objects.ts';
import type { StreamState, WatchEvent } from './watch.ts';

/** How one object changed: new without `before`, deleted without `after`. */
export interface ObjectChange {
  readonly before: ApiObject | undefined;
  readonly after: ApiObject | undefined;
}

export type SharedEvent =
  /** All objects. Always the first, and once. */
  | { readonly kind: 'all'; readonly objects: readonly ApiObject[]; readonly version: string }
  /** No change is repeated. Without changes it is a bookmark. */
  | { readonly kind: 'changes'; readonly changes: readonly ObjectChange[]; readonly version: string };

/** Starts the list and watch behind a shared watch. */
export type StartWatch = (onStream: (state: StreamState) => void, signal: AbortSignal) => AsyncIterable<WatchEvent>;

export interface WatchedObjects {
  readonly start: StartWatch;
  /** Returns the part of an object that followers need. */
  readonly trim: (object: ApiObject) => ApiObject;
}

/**
 * Lets all followers of the same objects in a process share one list and one watch. It starts with the first follower
 * and ends with the last. Objects are cached, so that a further follower needs no list.
 */
export class SharedWatches {
  readonly #watches = new Map<string, SharedWatch>();

  /** Joins the watch of that key, or starts it. Throws what the watch throws, to all followers at once. */
  async *follow(
    key: string,
    { onStream, ...watched }: WatchedObjects & { readonly onStream: (state: StreamState) => void },
    signal: AbortSignal,
  ): AsyncGenerator<SharedEvent> {
    const watch = this.#watches.get(key) ?? new SharedWatch(watched, () => this.#watches.delete(key));
    this.#watches.set(key, watch);
    yield* watch.follow(onStream, signal);
  }
}

interface Follower {
  readonly events: Channel<SharedEvent>;
  readonly onStream: (state: StreamState) => void;
}

class SharedWatch {
  readonly #trim: WatchedObjects['trim'];
  readonly #onEnd: () => void;
  readonly #over = new AbortController();
  readonly #followers = new Set<Follower>();
  readonly #objects = new Map<string, ApiObject>();
  /** Undefined until the objects are listed. */
  #version: string | undefined;
  #isOpen = false;

  constructor({ start, trim }: WatchedObjects, onEnd: () => void) {
    this.#trim = trim;
    this.#onEnd = onEnd;
    void this.#run(start);
  }

  async *follow(onStream: (state: StreamState) => void, signal: AbortSignal): AsyncGenerator<SharedEvent> {
    const events = new Channel<SharedEvent>();
    const follower = { events, onStream };
    const close = (): void => events.close();
    signal.addEventListener('abort', close, { once: true });
    if (signal.aborted) close();
    this.#followers.add(follower);
    if (this.#isOpen) onStream('opened');
    if (this.#version !== undefined) events.push(this.#all(this.#version));
    try {
      yield* events;
    } finally {
      signal.removeEventListener('abort', close);
      this.#followers.delete(follower);
      if (this.#followers.size === 0) this.#end();
    }
  }

  async #run(start: StartWatch): Promise<void> {
    const { signal } = this.#over;
    try {
      for await (const event of start((state) => this.#note(state), signal)) this.#apply(event);
    } catch (cause) {
      this.#end();
      for (const { events } of this.#followers) events.fail(cause);
    }
  }

  #end(): void {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    this.#onEnd();
  }

  #note(state: StreamState): void {
    this.#isOpen = state !== 'broken';
    for (const { onStream } of this.#followers) onStream(state);
  }

  #apply(event: WatchEvent): void {
    const isFirst = this.#version === undefined;
    this.#version = event.version;
    const changes = this.#changesOf(event);
    const next = isFirst ? this.#all(event.version) : ({ kind: 'changes', changes, version: event.version } as const);
    for (const { events } of this.#followers) events.push(next);
  }

  #changesOf(event: WatchEvent): readonly ObjectChange[] {
    switch (event.kind) {
      case 'bookmark':
        return [];
      case 'changed':
        return this.#put(event.object);
      case 'gone':
        return this.#delete(keyOf(event.object));
      case 'all': {
        const listed = new Set(event.objects.map(keyOf));
        const deleted = [...this.#objects.keys()].filter((key) => !listed.has(key));
        return [...deleted.flatMap((key) => this.#delete(key)), ...event.objects.flatMap((each) => this.#put(each))];
      }
      default:
        return never(event);
    }
  }

  #put(object: ApiObject): readonly ObjectChange[] {
    const key = keyOf(object);
    const before = this.#objects.get(key);
    const after = this.#trim(object);
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

  #all(version: string): SharedEvent {
    return { kind: 'all', objects: [...this.#objects.values()], version };
  }
}

function keyOf({ metadata }: ApiObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}
