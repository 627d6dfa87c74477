import { aborted } from '../../base/until-aborted.ts';
import type { EtcdClient } from './etcd-client.ts';
import { EtcdWatch } from './etcd-watch.ts';
import { bytesOf } from './requests.ts';

interface Seen {
  /** Lease of the key when the key was last read. */
  lease: bigint | undefined;
  /** When it was last read, on the monotonic clock. */
  readAtMs: number;
  /** Aborts when something has happened to the key since, or the watch is lost. */
  readonly outdated: AbortSignal;
  /** Reason why the watch is lost. */
  failure?: Error;
  readonly stop: () => void;
}

/**
 * Lease that a key is bound to: read again when something has happened to the key, and from time to time, because a member
 * that has fallen behind still answers on the stream of a watch.
 */
export class WatchedKey {
  readonly #client: EtcdClient;
  readonly #key: string;
  readonly #trustMs: number;
  /** Undefined when the key is not watched. */
  #seen: Seen | undefined;

  /** `trustMs` is how long a read counts while the watch says nothing. */
  constructor(client: EtcdClient, key: string, trustMs: number) {
    this.#client = client;
    this.#key = key;
    this.#trustMs = trustMs;
  }

  /** Reports whether the key is bound to the lease. A change shows as soon as the watch has delivered it. @throws store/* */
  async isBoundTo(lease: bigint, signal: AbortSignal): Promise<boolean> {
    const { lease: seen, readAtMs = Number.NEGATIVE_INFINITY } = this.#seen ?? {};
    const isFresh = performance.now() - readAtMs < this.#trustMs;
    return isFresh && seen !== undefined ? seen === lease : (await this.read(signal)) === lease;
  }

  /** Returns the lease of the key, as it is now. @throws store/* */
  async read(signal: AbortSignal): Promise<bigint | undefined> {
    const readAtMs = performance.now();
    const { kvs, header } = await this.#client.range({ key: bytesOf(this.#key) }, signal);
    this.#seen ??= this.#watch(header?.revision ?? 0n);
    // A key without a lease, as a copy of the keys leaves it, would never be released.
    const lease = kvs[0]?.lease === 0n ? undefined : kvs[0]?.lease;
    Object.assign(this.#seen, { lease, readAtMs });
    return lease;
  }

  /** Resolves when something may have happened to the key since it was read. @throws store/* when the watch is lost */
  async changed(signal: AbortSignal): Promise<void> {
    const seen = this.#seen;
    if (seen === undefined) return;
    await aborted(AbortSignal.any([seen.outdated, signal]));
    if (seen.failure !== undefined) throw seen.failure;
  }

  close(): void {
    this.#seen?.stop();
    this.#seen = undefined;
  }

  #watch(revision: bigint): Seen {
    const [stop, outdated] = [new AbortController(), new AbortController()];
    const seen: Seen = { lease: undefined, readAtMs: 0, outdated: outdated.signal, stop: () => stop.abort() };
    void this.#untilChanged(revision, stop.signal)
      .catch((cause: Error) => (seen.failure = cause))
      .finally(() => {
        if (this.#seen === seen) this.#seen = undefined;
        outdated.abort();
      });
    return seen;
  }

  async #untilChanged(revision: bigint, signal: AbortSignal): Promise<void> {
    const watch = new EtcdWatch<'key'>(this.#client);
    watch.follow('key', this.#key, revision);
    for await (const { events } of watch.batches(signal)) if (events.length > 0) return;
  }
}
