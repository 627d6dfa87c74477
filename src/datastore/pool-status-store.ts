import type { IpPoolStatus } from '../model/ip-pool-status.ts';

/** A pool at a version. */
export interface PoolVersion {
  readonly name: string;
  readonly resourceVersion: string;
}

/** Writes of the controllers about pools. No other write changes a status: creations leave it out, and updates keep it. */
export interface PoolStatusStore {
  /**
   * Replaces the status of the pool, or removes it when `status` is undefined. A block is not claimed in a pool that has
   * changed meanwhile. @throws resource/not-found, resource/changed
   */
  setPoolStatus(pool: PoolVersion, status: IpPoolStatus | undefined, signal: AbortSignal): Promise<void>;
}
