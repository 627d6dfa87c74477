import type { IpBlock } from '../../model/ip-block.ts';

/**
 * Tracks the pre-allocated addresses of one run of the agent. Each id is assigned at most once: an address that the
 * datastore shows again afterwards, such as after a restore, is not offered.
 */
export class PreallocatedAddresses {
  readonly run: string;
  #count = 0;
  /** Ids that were pre-allocated and neither assigned nor reclaimed. */
  #ready = new Set<string>();
  /** Increases whenever a result of `owns` may change. */
  version = 0;

  constructor(run: string) {
    this.run = run;
  }

  /** Whether the run has pre-allocated any address. */
  get hasAny(): boolean {
    return this.#count > 0;
  }

  /** Returns an id that was never used before. */
  readonly newId = (): string => {
    const id = `${this.run}#${String((this.#count += 1))}`;
    this.#ready.add(id);
    this.version += 1;
    return id;
  };

  readonly owns = (preallocationId: string): boolean => this.#ready.has(preallocationId);

  /** Reports whether the id is of this run and must not be assigned. */
  readonly isSpent = (preallocationId: string): boolean =>
    isOfRun(preallocationId, this.run) && !this.#ready.has(preallocationId);

  /** Returns the ordinals of the block that may be assigned, in the order in which they were pre-allocated. */
  in(block: IpBlock): number[] {
    return ownedOrdinals(block, this.owns);
  }

  /** Reports whether any address of the block may be assigned. */
  isIn({ preallocated }: IpBlock): boolean {
    for (const id of preallocated.values()) if (this.owns(id)) return true;
    return false;
  }

  /** Marks the id as assigned. */
  spend(preallocationId: string): void {
    if (this.#ready.delete(preallocationId)) this.version += 1;
  }

  /** Restricts assignment to the addresses that these blocks still pre-allocate, even when their write fails. */
  keep(blocks: Iterable<IpBlock>): void {
    const kept = new Set<string>();
    for (const { preallocated } of blocks) for (const id of preallocated.values()) if (this.owns(id)) kept.add(id);
    if (kept.size === this.#ready.size) return;
    this.#ready = kept;
    this.version += 1;
  }
}

/** Returns the pre-allocated ordinals whose ids are owned, in the order in which they were pre-allocated. */
export function ownedOrdinals({ preallocated }: IpBlock, owns: (preallocationId: string) => boolean): number[] {
  return [...preallocated]
    .filter(([, id]) => owns(id))
    .map(([ordinal, id]) => ({ ordinal, count: Number(id.slice(id.indexOf('#') + 1)) }))
    .sort((a, b) => a.count - b.count)
    .map(({ ordinal }) => ordinal);
}

export function isOfRun(preallocationId: string, run: string): boolean {
  return preallocationId.startsWith(`${run}#`);
}

export function runOf(preallocationId: string): string {
  return preallocationId.slice(0, preallocationId.indexOf('#'));
}
