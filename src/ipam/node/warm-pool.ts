import { reasonOf } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { AllocationStore, Change } from '../../datastore/allocation-store.ts';
import { type CoolDown, countCooling, DEFAULT_COOL_DOWN_SECONDS } from '../../model/cool-down.ts';
import { type IpBlock, isIdle } from '../../model/ip-block.ts';
import type { SlotOperation } from '../../model/slot-operation.ts';
import type { NodeName } from '../../model/names.ts';
import { type Cidr, formatCidr } from '../../net/cidr.ts';
import { BlockClaims } from './block-claims.ts';
import { Demand } from './demand.ts';
import type { Entry } from './entry.ts';
import type { LocalView } from './local-view.ts';
import type { NodeCache } from './node-cache.ts';
import type { OtherRuns } from './other-runs.ts';
import { type PreallocatedAddresses, runOf } from './preallocated.ts';
import { fittingBlocks } from './plan-flush.ts';
import { planWarmPool } from './plan-warm-pool.ts';

/** Time for which a block must be empty before the node gives it back. */
const IDLE_MS = 60_000;
const RETURN_MS = 10_000;
/** Time for which a pool pre-allocates no addresses after another node had to request one. */
const YIELD_MS = 10_000;

export interface WarmPoolPorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<AllocationStore, 'listClaims'>;
  readonly cache: NodeCache;
  readonly view: LocalView;
  readonly preallocated: PreallocatedAddresses;
  readonly otherRuns: OtherRuns;
  /** Time for which the node assigns nothing new, in milliseconds. */
  readonly graceMs: () => number;
  /** Requests another flush at once. */
  readonly triggerNow: () => void;
  /** Writes the creation or deletion of a block. */
  readonly write: (change: Change, signal: AbortSignal) => Promise<unknown>;
}

/** Sizes the warm pool of every pool of the node: pre-allocated addresses that pods get without the datastore. */
export class WarmPool {
  readonly #ports: WarmPoolPorts;
  readonly #node: NodeName;
  readonly #demand: Demand;
  readonly #claims: BlockClaims;
  /** When another node last requested an address, by pool. */
  readonly #requested = new Map<string, number>();
  #fingerprint = '';
  /** Since when own blocks have been empty, by block. */
  #idleSince: ReadonlyMap<string, number> = new Map();
  #isClosing = false;

  constructor(
    ports: WarmPoolPorts,
    { node, warmPoolFloor }: { readonly node: NodeName; readonly warmPoolFloor: () => number },
  ) {
    this.#ports = ports;
    this.#node = node;
    this.#demand = new Demand(warmPoolFloor);
    this.#claims = new BlockClaims({
      ...ports,
      node,
      recent: (pool) => this.#demand.recent(pool, ports.clock.monotonic()),
      coolDown: () => this.#coolDown(),
    });
  }

  /** Makes every later `adjust` reclaim all pre-allocated addresses. */
  close(): void {
    this.#isClosing = true;
  }

  noteStarts({ slots }: Entry): void {
    const { cache, clock } = this.#ports;
    for (const slot of slots) {
      if (slot.kind !== 'take') continue;
      const key = formatCidr(slot.block);
      // An address that was asked for explicitly says nothing about the next pods.
      if (cache.blocks.get(key)?.value.node === undefined) continue;
      const pool = cache.poolOf(key, slot.block);
      if (pool !== undefined) this.#demand.record(pool.name, clock.monotonic());
    }
  }

  /** Records that another node has requested an address of the block. */
  noteRequest(block: Cidr): void {
    const { cache, clock } = this.#ports;
    const pool = cache.poolOf(formatCidr(block), block);
    if (pool !== undefined) this.#requested.set(pool.name, clock.monotonic());
  }

  /** Reports whether, since the last call, the size of a warm pool has changed with time. */
  hasAged(): boolean {
    const nowMs = this.#ports.clock.monotonic();
    const own = [...this.#ports.view.ownBlocks().values()];
    const counts = [this.#yielding(nowMs).size, this.#endedRuns(own).size, this.#countCooling(own)];
    const fingerprint = `${this.#demand.fingerprint(nowMs)} ${counts.join(' ')}`;
    const hasChanged = fingerprint !== this.#fingerprint;
    this.#fingerprint = fingerprint;
    return hasChanged;
  }

  /** Plans what brings the warm pool of every pool of the node to its size, as far as one write takes it. */
  adjust(blocks: ReadonlyMap<string, IpBlock>, isWritten: (key: string) => boolean): readonly SlotOperation[] {
    const { clock, cache, view, preallocated, graceMs, triggerNow } = this.#ports;
    const { pools, reserved } = cache;
    const nowMs = clock.monotonic();
    if (graceMs() > 0 && !this.#isClosing) return [];
    const own = new Map([...blocks].filter(([, block]) => block.node === this.#node));
    const mayPreallocate = !this.#isClosing && !cache.isLocked;
    const over = this.#endedRuns(own.values());
    const planned = planWarmPool({
      owns: preallocated.owns,
      blocks: own,
      pools,
      reserved,
      coolDown: this.#coolDown(),
      targets: mayPreallocate
        ? this.#demand.targets(pools, { own: [...own.values()], node: this.#node, nowMs })
        : new Map<string, number>(),
      newId: preallocated.newId,
      isWritten,
      isOrphaned: (preallocationId) => over.has(runOf(preallocationId)) || preallocated.isSpent(preallocationId),
      yielding: this.#yielding(nowMs),
      isPending: (key, ordinal) => view.block(key)?.slots.has(ordinal) === true,
    });
    const changed = fittingBlocks(
      [...planned].map(([key, { block }]) => [key, block] as const),
      new Map([...blocks].filter(([key]) => isWritten(key))),
    );
    if (changed.length < planned.size) triggerNow();
    const after = new Map([...own, ...changed]);
    preallocated.keep(after.values());
    if (mayPreallocate) void this.#claims.claimAhead([...after.values()]);
    return changed.flatMap(([key]) => planned.get(key)?.operations ?? []);
  }

  /** Gives back blocks that are empty and of a pool from which the node needs no addresses, or of none. Never rejects. */
  async returnIdle(): Promise<void> {
    const { clock, cache, view, graceMs, log } = this.#ports;
    if (this.#isClosing || cache.isLocked || graceMs() > 0) return;
    const nowMs = clock.monotonic();
    const own = view.ownBlocks();
    const targets = this.#demand.targets(cache.pools, { own: [...own.values()], node: this.#node, nowMs });
    const idle = [...own].filter(
      ([key, block]) => isIdle(block) && !targets.has(cache.poolOf(key, block.cidr)?.name ?? ''),
    );
    this.#idleSince = new Map(idle.map(([key]) => [key, this.#idleSince.get(key) ?? nowMs]));
    for (const [key, sinceMs] of this.#idleSince) {
      const before = cache.blocks.get(key);
      if (nowMs - sinceMs < IDLE_MS || before === undefined || !isIdle(before.value)) continue;
      // The record of the block goes with it, and another node may claim the addresses.
      if (this.#countCooling([before.value]) > 0) continue;
      try {
        await this.#ports.write({ kind: 'delete-block', before }, AbortSignal.timeout(RETURN_MS));
      } catch (cause) {
        log.warning('empty block not given back', { block: key, reason: reasonOf(cause) });
        return;
      }
    }
  }

  #coolDown(): CoolDown {
    const { clock, cache } = this.#ports;
    return { nowMs: clock.now(), seconds: cache.settings?.config.cooldownSeconds ?? DEFAULT_COOL_DOWN_SECONDS };
  }

  #countCooling(own: readonly IpBlock[]): number {
    const coolDown = this.#coolDown();
    return own.reduce((sum, block) => sum + countCooling(block, coolDown), 0);
  }

  #endedRuns(own: Iterable<IpBlock>): ReadonlySet<string> {
    const runs = new Set<string>();
    for (const { preallocated } of own) for (const id of preallocated.values()) runs.add(runOf(id));
    return this.#ports.otherRuns.ended(runs);
  }

  #yielding(nowMs: number): ReadonlySet<string> {
    return new Set([...this.#requested].filter(([, at]) => nowMs - at < YIELD_MS).map(([pool]) => pool));
  }
}
