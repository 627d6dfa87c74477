import type { KvConnection } from '../../config/connection.ts';
import type { LeaderLease } from '../../runtime/leader-lease.ts';
import { ETCD_LIMITS, EtcdClient } from './etcd-client.ts';
import { EtcdWatch, isPut } from './etcd-watch.ts';
import { Keys } from './keys.ts';
import { leased, bytesOf, type LeasedKey, put, txn } from './requests.ts';

export interface EtcdLeaseOptions {
  /** What is led. */
  readonly name: string;
  /** Different for each process. */
  readonly holder: string;
  /** At least 2 s: etcd grants no shorter lease. */
  readonly durationMs: number;
}

export interface FencingLease extends LeaderLease, AsyncDisposable {
  /** What a write must expect to be one of the leader; undefined while this candidate does not lead. */
  readonly held: LeasedKey | undefined;
}

/** A key bound to an etcd lease, over a connection of its own: etcd deletes it when the lease is not renewed. */
export function openEtcdLease(connection: KvConnection, options: EtcdLeaseOptions): FencingLease {
  const client = new EtcdClient(connection, { limits: ETCD_LIMITS, onRequest: () => undefined });
  return new EtcdLease(client, options);
}

class EtcdLease implements FencingLease {
  readonly #client: EtcdClient;
  readonly #key: string;
  readonly #holder: string;
  readonly durationMs: number;
  /** The lease of a key that this candidate has written, or may have written. */
  #lease: bigint | undefined;

  constructor(client: EtcdClient, { name, holder, durationMs }: EtcdLeaseOptions) {
    this.#client = client;
    this.#key = new Keys().leader(name);
    this.#holder = holder;
    this.durationMs = durationMs;
  }

  get held(): LeasedKey | undefined {
    return this.#lease === undefined ? undefined : { key: this.#key, lease: this.#lease };
  }

  async hold(signal: AbortSignal): Promise<boolean> {
    if (this.#lease !== undefined) return this.#renew(this.#lease, signal);
    if ((await this.#read(signal)).lease !== undefined) return false;
    const lease = await this.#client.grantLease(Math.ceil(this.durationMs / 1000), signal);
    this.#lease = lease;
    // Etcd compares a key that is not there as one without a lease.
    const free = leased({ key: this.#key, lease: 0n });
    const success = [put(this.#key, this.#holder, lease)];
    const { succeeded } = await this.#client.write(txn({ compare: [free], success }), signal);
    if (!succeeded) await this.release(signal);
    return succeeded;
  }

  async release(signal: AbortSignal): Promise<void> {
    if (this.#lease === undefined) return;
    await this.#client.revokeLease(this.#lease, signal);
    this.#lease = undefined;
  }

  async released(signal: AbortSignal): Promise<void> {
    const { lease, revision } = await this.#read(signal);
    if (lease === undefined) return;
    const watch = new EtcdWatch<'key'>(this.#client);
    watch.follow('key', this.#key, revision);
    for await (const { events } of watch.batches(signal)) if (!events.every(isPut)) return;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }

  async #renew(lease: bigint, signal: AbortSignal): Promise<boolean> {
    const isAlive = await this.#client.keepLeaseAlive(lease, signal);
    const isHeld = isAlive && (await this.#read(signal)).lease === lease;
    if (isAlive && !isHeld) await this.release(signal);
    if (!isHeld) this.#lease = undefined;
    return isHeld;
  }

  async #read(signal: AbortSignal): Promise<{ readonly lease: bigint | undefined; readonly revision: bigint }> {
    const { kvs, header } = await this.#client.range({ key: bytesOf(this.#key) }, signal);
    const lease = kvs[0]?.lease;
    // A key without a lease, as a copy of the keys leaves it, would never be released.
    return { lease: lease === 0n ? undefined : lease, revision: header?.revision ?? 0n };
  }
}
