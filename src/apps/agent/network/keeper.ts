import { isNetplugError, reasonOf } from '../../../base/errors.ts';
import type { Log } from '../../../base/log.ts';
import { type Patience, pauseMs } from '../../../base/retry.ts';

/** Pokes that come together are answered together. */
const SETTLE_MS = 20;
const PAUSES = { firstMs: 250, longestMs: 10_000, longestRefusedMs: 30_000 };

export interface KeeperOptions extends Patience {
  /** What is kept, as in "Cannot keep the <name>". */
  readonly name: string;
  readonly work: (signal: AbortSignal) => Promise<void>;
  /** How often the work is done although nothing was heard; never unless given. */
  readonly everyMs?: number;
  /** How long it rests after each try, however often it is poked; not at all unless given. */
  readonly restMs?: number;
  /** Told after each try. */
  readonly onTried?: () => void;
  readonly log: Log;
}

/**
 * One thing that is kept as it shall be: the work is done when somebody pokes it, again after it failed, and now and then.
 * It begins with the first poke.
 */
export class Keeper {
  readonly #options: KeeperOptions;
  #isPoked = false;
  #hasWorked = false;
  #problem: string | undefined;
  #cause: unknown;
  #isDatastoreAway = false;
  #wake: (() => void) | undefined;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  /** Why it is not as it shall be; undefined when it is. */
  get problem(): string | undefined {
    return this.#problem ?? (this.#hasWorked ? undefined : 'nothing is known yet');
  }

  /** The same; but what was so once stays so while the datastore is away. */
  get harm(): string | undefined {
    return this.#hasWorked && this.#isDatastoreAway ? undefined : this.problem;
  }

  /** The one or the other as a sentence that names what is kept; none when all is well. */
  said(what: 'harm' | 'problem'): readonly string[] {
    return this[what] === undefined ? [] : [`${this.name}: ${this[what]}`];
  }

  /** Whether it was as it shall be at least once. */
  get hasWorked(): boolean {
    return this.#hasWorked;
  }

  poke(): void {
    this.#isPoked = true;
    this.#wake?.();
  }

  /** Returns when the signal ends it. */
  async run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      await this.#poked(failures, signal);
      if (signal.aborted) return;
      this.#isPoked = false;
      failures = (await this.#try(signal)) ? 0 : failures + 1;
      this.#options.onTried?.();
      if (this.#options.restMs !== undefined)
        await this.#options.clock.sleep(this.#options.restMs, signal).catch(() => undefined);
    }
  }

  async #try(signal: AbortSignal): Promise<boolean> {
    const { name, work, log } = this.#options;
    try {
      await work(signal);
      if (this.#problem !== undefined) log.info('trouble is over', { part: name });
      this.#problem = undefined;
      this.#isDatastoreAway = false;
      this.#hasWorked = true;
      return true;
    } catch (cause) {
      if (signal.aborted) return false;
      const reason = reasonOf(cause);
      if (reason !== this.#problem) log.warning('trouble', { part: name, reason });
      this.#problem = reason;
      this.#cause = cause;
      this.#isDatastoreAway = isNetplugError(cause, 'store/unavailable');
      return false;
    }
  }

  async #poked(failures: number, signal: AbortSignal): Promise<void> {
    const { clock, random, everyMs } = this.#options;
    if (failures > 0) {
      const restMs = pauseMs({ failures, cause: this.#cause }, PAUSES, random);
      await clock.sleep(restMs, signal).catch(() => undefined);
      return;
    }
    if (!this.#isPoked) {
      const over = new AbortController();
      const either = AbortSignal.any([signal, over.signal]);
      this.#wake = () => over.abort();
      const waitMs = this.#hasWorked ? (everyMs ?? 2 ** 31 - 1) : 2 ** 31 - 1;
      await clock.sleep(waitMs, either).catch(() => undefined);
      this.#wake = undefined;
    }
    await clock.sleep(SETTLE_MS, signal).catch(() => undefined);
  }
}
