import type { IpBlock } from '../../model/ip-block.ts';

/**
 * The stock of one run of the agent: which of it may be handed out. An id may be handed out once: what the datastore
 * shows again afterwards, as after a backup was restored, is no offer.
 */
export class OwnStock {
  readonly run: string;
  #count = 0;
  /** Ids that were set aside and neither handed out nor given back. */
  #ready = new Set<string>();
  /** Grows whenever `owns` may answer otherwise than before. */
  version = 0;

  constructor(run: string) {
    this.run = run;
  }

  /** A stock id that was never used before. */
  readonly newId = (): string => {
    const id = `${this.run}#${String((this.#count += 1))}`;
    this.#ready.add(id);
    this.version += 1;
    return id;
  };

  readonly owns = (stockId: string): boolean => this.#ready.has(stockId);

  /** Whether the id is of this run and may not be handed out. */
  readonly isSpent = (stockId: string): boolean => isOfRun(stockId, this.run) && !this.#ready.has(stockId);

  /** The ordinals of the block that may be handed out, in the order in which they were set aside. */
  in(block: IpBlock): number[] {
    return stockOf(block, this.owns);
  }

  /** The id is handed out now. */
  spend(stockId: string): void {
    if (this.#ready.delete(stockId)) this.version += 1;
  }

  /** Only what these blocks still have in stock may be handed out from now on, whatever becomes of their write. */
  keep(blocks: Iterable<IpBlock>): void {
    const kept = new Set([...blocks].flatMap(({ stock }) => [...stock.values()]).filter(this.owns));
    if (kept.size === this.#ready.size) return;
    this.#ready = kept;
    this.version += 1;
  }
}

/** The ordinals of the block's stock that is owned, in the order in which they were set aside. */
export function stockOf({ stock }: IpBlock, owns: (stockId: string) => boolean): number[] {
  return [...stock].filter(([, id]) => owns(id)).map(([ordinal]) => ordinal);
}

export function isOfRun(stockId: string, run: string): boolean {
  return stockId.startsWith(`${run}#`);
}

export function runOf(stockId: string): string {
  return stockId.slice(0, stockId.indexOf('#'));
}
