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
  /** Grows whenever `owns` may answer otherwise than before. */
  version = 0;

  constructor(run: string) {
    this.run = run;
  }

  /** Returns an id that was never used before. */
  readonly newId = (): string => {
    const id = `${this.run}#${String((this.#count += 1))}`;
    this.#ready.add(id);
    this.version += 1;
    return id;
  };

  readonly owns = (stockId: string): boolean => this.#ready.has(stockId);

  /** Reports whether the id is of this run and must not be assigned. */
  readonly isSpent = (stockId: string): boolean => isOfRun(stockId, this.run) && !this.#ready.has(stockId);

  /** Returns the ordinals of the block that may be assigned, in the order in which they were pre-allocated. */
  in(block: IpBlock): number[] {
    return stockOf(block, this.owns);
  }

  /** Marks the id as assigned. */
  spend(stockId: string): void {
    if (this.#ready.delete(stockId)) this.version += 1;
  }

  /** From now on only what these blocks still pre-allocate may be assigned, whatever becomes of their write. */
  keep(blocks: Iterable<IpBlock>): void {
    const kept = new Set([...blocks].flatMap(({ preallocated }) => [...preallocated.values()]).filter(this.owns));
    if (kept.size === this.#ready.size) return;
    this.#ready = kept;
    this.version += 1;
  }
}

/** Returns the pre-allocated ordinals whose ids are owned, in the order in which they were pre-allocated. */
export function stockOf({ preallocated }: IpBlock, owns: (stockId: string) => boolean): number[] {
  return [...preallocated].filter(([, id]) => owns(id)).map(([ordinal]) => ordinal);
}

export function isOfRun(stockId: string, run: string): boolean {
  return stockId.startsWith(`${run}#`);
}

export function runOf(stockId: string): string {
  return stockId.slice(0, stockId.indexOf('#'));
}
