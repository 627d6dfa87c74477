import type { KvConnection } from '../../config/connection.ts';
import type { LeaderLease } from '../../runtime/leader-lease.ts';
import { type ClientLimits, ETCD_LIMITS, EtcdClient } from './etcd-client.ts';
import { Keys } from './keys.ts';
import { LeaseRenewals } from './lease-renewals.ts';
import { leased, type LeasedKey, put, txn } from './requests.ts';
import { WatchedKey } from './watched-key.ts';

export interface EtcdLeaseOptions {
  /** Name of what is led. */
  readonly name: string;
  /** Different for each process. */
  readonly holder: string;
  /** At least 2 s: etcd grants no shorter lease. */
  readonly durationMs: number;
}

export interface FencingLease extends LeaderLease, AsyncDisposable {
  /** Key that a write of the leader must expect; undefined while this candidate does not lead. */
  readonly held: LeasedKey | undefined;
}

/** A key bound to an etcd lease, over a connection of its own: etcd deletes it when the lease is not renewed. */
export function openEtcdLease(connection: KvConnection, options: EtcdLeaseOptions): FencingLease {
  const client = new EtcdClient(connection, { limits: limitsFor(options.durationMs), onRequest: () => undefined });
  return new EtcdLease(client, options);
}

/** An endpoint that does not respond must leave time for the next one before the lease ends. Reads of the key probe its watch. */
function limitsFor(durationMs: number): ClientLimits {
  return { ...ETCD_LIMITS, connectMs: durationMs / 4, firstTryMs: durationMs / 4, silenceMs: 90_000 };
}

class EtcdLease implements FencingLease {
  readonly #client: EtcdClient;
  readonly #key: string;
  readonly #watched: WatchedKey;
  readonly #renewals: LeaseRenewals;
  readonly #holder: string;
  readonly durationMs: number;
  /** The lease of a key that this candidate has written, or may have written. */
  #lease: bigint | undefined;

  constructor(client: EtcdClient, { name, holder, durationMs }: EtcdLeaseOptions) {
    this.#client = client;
    this.#key = new Keys().leader(name);
    this.#watched = new WatchedKey(client, this.#key, durationMs);
    this.#renewals = new LeaseRenewals(client);
    this.#holder = holder;
    this.durationMs = durationMs;
  }

  get held(): LeasedKey | undefined {
    return this.#lease === undefined ? undefined : { key: this.#key, lease: this.#lease };
  }

  async hold(signal: AbortSignal): Promise<boolean> {
    if (this.#lease !== undefined) return this.#renew(this.#lease, signal);
    if ((await this.#watched.read(signal)) !== undefined) return false;
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
    this.#renewals.close();
    if (this.#lease === undefined) return;
    await this.#client.revokeLease(this.#lease, signal);
    this.#lease = undefined;
  }

  async released(signal: AbortSignal): Promise<void> {
    await this.#watched.changed(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#renewals.close();
    this.#watched.close();
    await this.#client[Symbol.asyncDispose]();
  }

  async #renew(lease: bigint, signal: AbortSignal): Promise<boolean> {
    const isAlive = await this.#renewals.renew(lease, signal);
    const isHeld = isAlive && (await this.#watched.isBoundTo(lease, signal));
    if (isAlive && !isHeld) await this.release(signal);
    if (!isHeld) this.#lease = undefined;
    return isHeld;
  }
}
