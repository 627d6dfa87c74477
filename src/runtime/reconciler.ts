import { BackOff, type RetryPorts } from '../base/back-off.ts';
import { isNetplugError, reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';

/** Triggers within this time cause one run. */
const COALESCE_MS = 20;
const BACK_OFF = { firstMs: 250, maxMs: 10_000, maxRefusedMs: 30_000 };
const FOREVER_MS = 2 ** 31 - 1;

export interface ReconcilerOptions extends RetryPorts {
  readonly name: string;
  /** Brings the actual state to the desired state. */
  readonly reconcile: (signal: AbortSignal) => Promise<void>;
  /** How often it runs without a trigger, once it has succeeded; never unless given. */
  readonly resyncMs?: number;
  /** The pause after each run, whatever triggers the next one; none unless given. */
  readonly pauseMs?: number;
  /** Called after each run, whether it succeeded or failed. */
  readonly onRun?: () => void;
  readonly log: Log;
}

/** Runs one reconcile function: when triggered, again with back-off after a failure, and periodically. */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #backOff: BackOff;
  #isTriggered = false;
  #hasSucceeded = false;
  #lastError: string | undefined;
  #isStoreUnavailable = false;
  #wake: (() => void) | undefined;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#backOff = new BackOff(options, BACK_OFF);
  }

  get name(): string {
    return this.#options.name;
  }

  /** The last error, or undefined when the desired state is in place. */
  get lastError(): string | undefined {
    return this.#lastError ?? (this.#hasSucceeded ? undefined : 'not reconciled yet');
  }

  /** The last error that affects pods: an unavailable datastore does not once the desired state was in place. */
  get failure(): string | undefined {
    return this.#hasSucceeded && this.#isStoreUnavailable ? undefined : this.lastError;
  }

  /** Returns the error as `<name>: <error>`, or nothing when there is none. */
  report(which: 'failure' | 'lastError'): readonly string[] {
    return this[which] === undefined ? [] : [`${this.name}: ${this[which]}`];
  }

  /** Reports whether the desired state was in place at least once. */
  get hasSucceeded(): boolean {
    return this.#hasSucceeded;
  }

  /** Makes it run soon; also the first time. */
  trigger(): void {
    this.#isTriggered = true;
    this.#wake?.();
  }

  /** Returns when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, pauseMs, onRun } = this.#options;
    while (!signal.aborted) {
      if (this.#lastError !== undefined) await this.#backOff.wait(signal);
      else await this.#triggered(signal);
      if (signal.aborted) return;
      this.#isTriggered = false;
      await this.#try(signal);
      onRun?.();
      if (pauseMs !== undefined) await clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }

  async #try(signal: AbortSignal): Promise<void> {
    const { name, reconcile, log } = this.#options;
    try {
      await reconcile(signal);
      if (this.#lastError !== undefined) log.info('reconcile recovered', { reconciler: name });
      this.#backOff.succeed();
      this.#lastError = undefined;
      this.#isStoreUnavailable = false;
      this.#hasSucceeded = true;
    } catch (cause) {
      if (signal.aborted) return;
      const reason = reasonOf(cause);
      if (reason !== this.#lastError) log.warning('reconcile failed', { reconciler: name, reason });
      this.#backOff.fail(cause);
      this.#lastError = reason;
      this.#isStoreUnavailable = isNetplugError(cause, 'store/unavailable');
    }
  }

  async #triggered(signal: AbortSignal): Promise<void> {
    const { clock, resyncMs = FOREVER_MS } = this.#options;
    if (!this.#isTriggered) {
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      const waitMs = this.#hasSucceeded ? resyncMs : FOREVER_MS;
      await clock.sleep(waitMs, AbortSignal.any([signal, woken.signal])).catch(() => undefined);
      this.#wake = undefined;
    }
    await clock.sleep(COALESCE_MS, signal).catch(() => undefined);
  }
}
