import { reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { AllocationStore, Change } from '../../datastore/allocation-store.ts';
import { freeCidrs, overlapsOneOf } from '../free-cidrs.ts';
import { emptyBlock, type IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { busyPool } from './busy-pool.ts';
import type { NodeMemory } from './node-memory.ts';

const CLAIM_MS = 10_000;

export interface BlockClaimsPorts {
  readonly node: NodeName;
  readonly log: Log;
  readonly store: Pick<AllocationStore, 'listClaims'>;
  readonly memory: NodeMemory;
  /** How many pods have come from the pool lately. */
  readonly recent: (pool: string) => number;
  readonly write: (create: Change, signal: AbortSignal) => Promise<unknown>;
}

/** Claims the next block of a busy pool while the last one still has addresses, one at a time. */
export class BlockClaims {
  readonly #ports: BlockClaimsPorts;
  #isClaiming = false;

  constructor(ports: BlockClaimsPorts) {
    this.#ports = ports;
  }

  /** Looks at the blocks of the node, and claims another when one will be needed soon. Never rejects. */
  async claimAhead(own: readonly IpBlock[]): Promise<void> {
    const { node, log, store, memory, recent, write } = this.#ports;
    const { config } = memory.settings ?? {};
    if (this.#isClaiming || config === undefined) return;
    const pool = busyPool(memory.pools, { own, limit: config.maxBlocksPerNode, recent });
    if (pool === undefined) return;
    this.#isClaiming = true;
    try {
      const signal = AbortSignal.timeout(CLAIM_MS);
      const claims = await store.listClaims([pool.cidr], signal);
      const isClaimed = overlapsOneOf(claims.map(({ cidr }) => cidr));
      const [cidr] = freeCidrs(pool, { isClaimed, reserved: memory.reserved, node });
      if (cidr === undefined) return;
      await write({ kind: 'create-block', block: emptyBlock(cidr, node), pool: pool.stored }, signal);
    } catch (cause) {
      log.warning('no block claimed ahead', { pool: pool.name, reason: reasonOf(cause) });
    } finally {
      this.#isClaiming = false;
    }
  }
}
