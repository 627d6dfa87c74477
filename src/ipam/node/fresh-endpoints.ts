import type { Change } from '../../datastore/allocation-store.ts';
import { endpointIdOf, endpointKey, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { NodeCache } from './node-cache.ts';

/** Time for which the watch may lag behind a write. */
export const CATCH_UP_MS = 500;

/** An endpoint that is being written, and the version of it that the cache shows until then. */
interface Write {
  readonly endpoint: WorkloadEndpoint;
  readonly over: string | undefined;
}

/**
 * Endpoints that were written and that the cache does not show yet, for readers. Each expires, because not every
 * datastore keeps every endpoint.
 */
export class FreshEndpoints {
  readonly #cache: NodeCache;
  readonly #now: () => number;
  readonly #written = new Map<string, Write & { readonly untilMs: number }>();

  constructor(cache: NodeCache, now: () => number) {
    this.#cache = cache;
    this.#now = now;
  }

  /** Returns what `note` needs once the changes are written: the cache may show them before the write returns. */
  prepare(changes: readonly Change[]): readonly Write[] {
    return changes.flatMap((change) =>
      change.kind === 'put-endpoint' ? { endpoint: change.endpoint, over: this.#shown(keyOf(change.endpoint)) } : [],
    );
  }

  note(writes: readonly Write[]): void {
    const untilMs = this.#now() + CATCH_UP_MS;
    for (const key of this.#written.keys()) this.find(key);
    for (const write of writes) this.#written.set(keyOf(write.endpoint), { ...write, untilMs });
  }

  find(key: string): WorkloadEndpoint | undefined {
    return this.leftMs(key) > 0 ? this.#written.get(key)?.endpoint : undefined;
  }

  /** Returns how long to wait until the cache shows the endpoint; 0 when it shows it, or is not expected to. */
  leftMs(key: string): number {
    const write = this.#written.get(key);
    if (write === undefined) return 0;
    const leftMs = write.untilMs - this.#now();
    if (leftMs > 0 && this.#shown(key) === write.over) return leftMs;
    this.#written.delete(key);
    return 0;
  }

  keys(): readonly string[] {
    return [...this.#written.keys()];
  }

  #shown(key: string): string | undefined {
    return this.#cache.endpoints.get(key)?.version;
  }
}

function keyOf(endpoint: WorkloadEndpoint): string {
  return endpointKey(endpointIdOf(endpoint));
}
