import { reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { AllocationStore, Change } from '../../datastore/allocation-store.ts';
import { freeCidrs, overlapsOneOf } from '../free-cidrs.ts';
import type { CoolDown } from '../../model/cool-down.ts';
import { emptyBlock, type IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { busyPool } from './busy-pool.ts';
import type { NodeCache } from './node-cache.ts';

const CLAIM_MS = 10_000;

export interface BlockClaimsPorts {
  readonly node: NodeName;
  readonly log: Log;
  readonly store: Pick<AllocationStore, 'listClaims'>;
  readonly cache: NodeCache;
  /** Returns the number of recent pod starts with an address of the pool. */
  readonly recent: (pool: string) => number;
  readonly coolDown: () => CoolDown;
  readonly write: (create: Change, signal: AbortSignal) => Promise<unknown>;
}

/** Claims the next block of a busy pool before the last one is used up, one block at a time. */
export class BlockClaims {
  readonly #ports: BlockClaimsPorts;
  #isClaiming = false;

  constructor(ports: BlockClaimsPorts) {
    this.#ports = ports;
  }

  /** Claims another block when the node will soon need one. Never rejects. */
  async claimAhead(own: readonly IpBlock[]): Promise<void> {
    const { node, log, store, cache, recent, coolDown, write } = this.#ports;
    const { config } = cache.settings ?? {};
    if (this.#isClaiming || config === undefined) return;
    const pool = busyPool(cache.pools, { own, limit: config.maxBlocksPerNode, recent, coolDown: coolDown() });
    if (pool === undefined) return;
    this.#isClaiming = true;
    try {
      const signal = AbortSignal.timeout(CLAIM_MS);
      const claims = await store.listClaims([pool.cidr], signal);
      const isClaimed = overlapsOneOf(claims.map(({ cidr }) => cidr));
      const [cidr] = freeCidrs(pool, { isClaimed, reserved: cache.reserved, node });
      if (cidr === undefined) return;
      await write({ kind: 'create-block', block: emptyBlock(cidr, node), pool: pool.stored }, signal);
    } catch (cause) {
      log.warning('block claim failed', { pool: pool.name, reason: reasonOf(cause) });
    } finally {
      this.#isClaiming = false;
    }
  }
}
