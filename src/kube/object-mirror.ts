import { reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { BackOff } from '../base/back-off.ts';
import type { RetryPorts } from '../base/back-off.ts';
import type { ApiObject } from './objects.ts';
import type { OrchApi, WatchOptions } from './orch-api.ts';
import type { Collection } from './paths.ts';
import { API_LIMITS } from './requester.ts';
import type { StreamState, WatchEvent } from './watch.ts';

/** What was missed before a stream was opened comes right after that; until then nothing is certain. */
const CATCH_UP_MS = 1000;
/** Before a watch that failed begins again. */
const BACK_OFF = { firstMs: 1000, maxMs: 5000, maxRefusedMs: 30_000 };

/** What is kept of the objects of one kind, and how they are found. */
export interface Mirrored<T> {
  readonly collection: Collection;
  readonly options: Omit<WatchOptions, 'onStream'>;
  readonly keep: (object: ApiObject) => T;
}

export interface MirrorPorts extends RetryPorts {
  readonly api: OrchApi;
  readonly log: Log;
}

/** Objects of one kind in memory, as the API tells them, and the knowledge whether that is all there is. */
export class ObjectMirror<T> {
  readonly #ports: MirrorPorts;
  readonly #mirrored: Mirrored<T>;
  readonly #kept = new Map<string, T>();
  /** From when on nothing is missing, on the monotonic clock. */
  #certainFrom = Number.POSITIVE_INFINITY;
  #heardAt = Number.NEGATIVE_INFINITY;

  constructor(ports: MirrorPorts, mirrored: Mirrored<T>) {
    this.#ports = ports;
    this.#mirrored = mirrored;
  }

  /** What is kept of an object; undefined also when something about it may have been missed. */
  find(namespace: string, name: string): T | undefined {
    const now = this.#ports.clock.monotonic();
    const isCertain = now >= this.#certainFrom && now - this.#heardAt < API_LIMITS.silenceMs;
    return isCertain ? this.#kept.get(keyOf(namespace, name)) : undefined;
  }

  /** Watches until the signal ends it, whatever becomes of the API meanwhile. */
  async run(signal: AbortSignal): Promise<void> {
    const { api, log } = this.#ports;
    const backOff = new BackOff(this.#ports, BACK_OFF);
    const { collection, options } = this.#mirrored;
    const onStream = (state: StreamState): void => this.#note(state);
    while (!signal.aborted) {
      backOff.start();
      try {
        for await (const event of api.watch(collection, { ...options, onStream }, signal)) this.#apply(event);
      } catch (cause) {
        if (signal.aborted) return;
        backOff.fail(cause);
        log.warning('watch is lost and begun anew', { kind: collection.plural, reason: reasonOf(cause) });
      }
      this.#forget();
      await backOff.wait(signal);
    }
  }

  #apply(event: WatchEvent): void {
    if (event.kind === 'all') {
      this.#forget();
      for (const object of event.objects) this.#put(object);
    } else if (event.kind === 'changed') this.#put(event.object);
    else if (event.kind === 'gone')
      this.#kept.delete(keyOf(event.object.metadata.namespace ?? '', event.object.metadata.name));
  }

  #put(object: ApiObject): void {
    this.#kept.set(keyOf(object.metadata.namespace ?? '', object.metadata.name), this.#mirrored.keep(object));
  }

  #note(state: StreamState): void {
    const now = this.#ports.clock.monotonic();
    if (state === 'broken') this.#certainFrom = Number.POSITIVE_INFINITY;
    else this.#heardAt = now;
    if (state === 'opened') this.#certainFrom = now + CATCH_UP_MS;
  }

  #forget(): void {
    this.#kept.clear();
    this.#certainFrom = Number.POSITIVE_INFINITY;
  }
}

/** No namespace holds a slash. */
function keyOf(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}
