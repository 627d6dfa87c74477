import type { IpBlock } from '../model/ip-block.ts';

/** The stock of one run of the agent: which of it may be handed out. */
export class OwnStock {
  readonly run: string;
  #count = 0;
  #returning: ReadonlySet<string> = new Set();
  /** Grows whenever `owns` may answer otherwise than before. */
  version = 0;

  constructor(run: string) {
    this.run = run;
  }

  /** A stock id that was never used before. */
  readonly newId = (): string => `${this.run}#${String((this.#count += 1))}`;

  readonly owns = (stockId: string): boolean => isOfRun(stockId, this.run) && !this.#returning.has(stockId);

  /** The ordinals of the block that may be handed out, in the order in which they were set aside. */
  in(block: IpBlock): number[] {
    return stockOf(block, this.owns);
  }

  /** What the next write gives back is handed out no more, whatever becomes of that write. */
  giveBack(before: ReadonlyMap<string, IpBlock>, after: ReadonlyMap<string, IpBlock>): void {
    const kept = new Set([...after.values()].flatMap(({ stock }) => [...stock.values()]));
    const returning = [...before.values()]
      .flatMap(({ stock }) => [...stock.values()])
      .filter((id) => isOfRun(id, this.run) && !kept.has(id));
    if (returning.length === 0 && this.#returning.size === 0) return;
    this.#returning = new Set(returning);
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
