import { timeLimit } from '../base/clock.ts';

/** What a client may take for its part while others wait: a silent one otherwise has the time that a slow network needs. */
const HURRY_MS = 1000;

/** Limits of connections whose clients are not known yet. */
export interface PendingLimits {
  /** Those that say who they are at a time. */
  readonly atOnce: number;
  /** Those that wait for that. */
  readonly waiting: number;
  readonly ofOneAddress: number;
}

export const PENDING_LIMITS: PendingLimits = { atOnce: 200, waiting: 2000, ofOneAddress: 8 };

/** Handles a connection, and returns what is done before its address has the place again. */
type PendingWork = (hurry: AbortSignal) => Promise<(() => Promise<void>) | undefined>;

/**
 * Connections whose clients are not known yet: anything that reaches the port can open them. Those of many nodes that come at
 * once wait in the order of arrival.
 */
export class PendingConnections {
  readonly #limits: PendingLimits;
  readonly #byAddress = new Map<string, number>();
  readonly #waiting: (() => void)[] = [];
  /** Those that are late, and may be as long as none waits. */
  readonly #late = new Set<AbortController>();
  #all = 0;
  #active = 0;

  constructor(limits: PendingLimits) {
    this.#limits = limits;
  }

  get count(): number {
    return this.#all;
  }

  /**
   * Takes one more, or returns why not. `work` begins when it is its turn, and the place is free again when it is done; that of its
   * address when what it returns is done as well. The signal aborts when the client has been given enough time, as others wait.
   */
  add(address: string, work: PendingWork): 'taken' | 'full' {
    const ofAddress = this.#byAddress.get(address) ?? 0;
    const { atOnce, waiting, ofOneAddress } = this.#limits;
    if (this.#all >= atOnce + waiting || ofAddress >= ofOneAddress) return 'full';
    this.#all += 1;
    this.#byAddress.set(address, ofAddress + 1);
    const begin = (): void => {
      this.#active += 1;
      void this.#run(address, work);
    };
    if (this.#active < atOnce) begin();
    else {
      this.#waiting.push(begin);
      for (const late of this.#late) late.abort();
      this.#late.clear();
    }
    return 'taken';
  }

  async #run(address: string, work: PendingWork): Promise<void> {
    const hurry = new AbortController();
    using limit = timeLimit(HURRY_MS);
    limit.signal.addEventListener('abort', () => {
      if (this.#waiting.length > 0) hurry.abort();
      else this.#late.add(hurry);
    });
    const after = await work(hurry.signal).catch(() => undefined);
    limit[Symbol.dispose]();
    this.#late.delete(hurry);
    this.#active -= 1;
    this.#all -= 1;
    this.#waiting.shift()?.();
    await after?.();
    const left = (this.#byAddress.get(address) ?? 1) - 1;
    if (left === 0) this.#byAddress.delete(address);
    else this.#byAddress.set(address, left);
  }
}
