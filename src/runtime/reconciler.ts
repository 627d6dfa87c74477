import { BackOff, type RetryPorts } from '../base/back-off.ts';
import { untilBeat } from '../base/clock.ts';
import { isNetplugError, NetplugError, reasonOf } from '../base/errors.ts';
import { given } from '../base/given.ts';
import type { Log } from '../base/log.ts';
import { Trigger } from '../base/trigger.ts';

/** Triggers within this time cause a single run. */
const COALESCE_MS = 20;
const BACK_OFF = { firstMs: 250, maxMs: 10_000, maxRefusedMs: 30_000 };

/** An error as a sentence, with the code and the remedy of a NetplugError. */
export interface ExplainedError {
  readonly text: string;
  readonly code?: string;
  readonly remedy?: string;
}

export interface ReconcilerOptions extends RetryPorts {
  readonly name: string;
  /** Brings the actual state to the desired state. `repaired` says that it was another one though nothing else was desired before. */
  readonly reconcile: (signal: AbortSignal) => Promise<'repaired' | void>;
  /** Interval at which it runs without a trigger after the first success; undefined means never. */
  readonly resyncMs?: number;
  /** The shortest time between the end of a run and the start of the next one; undefined means none. */
  readonly pauseMs?: number;
  /** Called after each run, whether it succeeded or failed. */
  readonly onRun?: () => void;
  readonly log: Log;
}

/** Runs one reconcile function: when triggered, again with back-off after a failure, and periodically. */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #backOff: BackOff;
  readonly #trigger = new Trigger();
  readonly #early = new Trigger();
  /** Resolved by the next run. */
  readonly #asked: ((isRepaired: boolean) => void)[] = [];
  #hasSucceeded = false;
  #lastError: string | undefined;
  #lastCause: unknown;
  #isStoreUnavailable = false;
  #endedMs = Number.NEGATIVE_INFINITY;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#backOff = new BackOff(options, BACK_OFF);
  }

  get name(): string {
    return this.#options.name;
  }

  /** The last error, or that no run has ended yet; undefined when the desired state is in place. */
  get lastError(): string | undefined {
    return this.#lastError ?? (this.#hasSucceeded ? undefined : 'not reconciled yet');
  }

  /**
   * The last error if it affects pods. An unavailable datastore does not after the first success: what was reconciled
   * stays in place.
   */
  get failure(): string | undefined {
    return this.#hasSucceeded && this.#isStoreUnavailable ? undefined : this.lastError;
  }

  /** Whether no run has ended yet. */
  get isUnrun(): boolean {
    return this.#lastError === undefined && !this.#hasSucceeded;
  }

  /** Returns the error as `<name>: <error>`, or nothing when there is none. */
  report(which: 'failure' | 'lastError'): readonly string[] {
    return this[which] === undefined ? [] : [`${this.name}: ${this[which]}`];
  }

  /** Returns the same with code and remedy of the error, where it has these. */
  explain(which: 'failure' | 'lastError'): readonly ExplainedError[] {
    const { code, hint } = this.#lastCause instanceof NetplugError ? this.#lastCause : {};
    return this.report(which).map((text) => ({ text, ...given({ code, remedy: hint }) }));
  }

  /** Reports whether a run has succeeded at least once. */
  get hasSucceeded(): boolean {
    return this.#hasSucceeded;
  }

  /** Requests a run. Resyncs begin after the first success. A trigger does not shorten the back-off after a failure. */
  trigger(): void {
    this.#trigger.set();
  }

  /**
   * The same for a caller that limits how often: the run does not wait for the back-off either. Resolves after it, also when it
   * fails, to whether it has repaired something.
   */
  async compareEarly(): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#asked.push(resolve);
    this.#early.set();
    this.#trigger.set();
    return promise;
  }

  /** Runs the reconcile function whenever it is due, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, onRun } = this.#options;
    while (!signal.aborted) {
      if (this.#lastError !== undefined) await this.#backOff.wait(signal, this.#early);
      else await this.#waitForTrigger(signal);
      await this.#waitForPause(signal);
      if (signal.aborted) return;
      this.#trigger.clear();
      this.#early.clear();
      const asked = this.#asked.splice(0);
      const isRepaired = await this.#runOnce(signal);
      for (const resolve of asked) resolve(isRepaired);
      this.#endedMs = clock.monotonic();
      onRun?.();
    }
  }

  /** Reports whether it has repaired something. */
  async #runOnce(signal: AbortSignal): Promise<boolean> {
    const { name, reconcile, log } = this.#options;
    try {
      const outcome = await reconcile(signal);
      if (this.#lastError !== undefined) log.info('reconcile recovered', { reconciler: name });
      this.#backOff.succeed();
      this.#lastError = undefined;
      this.#lastCause = undefined;
      this.#isStoreUnavailable = false;
      this.#hasSucceeded = true;
      return outcome === 'repaired';
    } catch (cause) {
      if (signal.aborted) return false;
      const reason = reasonOf(cause);
      if (reason !== this.#lastError) log.warning('reconcile failed', { reconciler: name, reason });
      this.#backOff.fail(cause);
      this.#lastError = reason;
      this.#lastCause = cause;
      this.#isStoreUnavailable = isNetplugError(cause, 'store/unavailable');
      return false;
    }
  }

  /** Resolves `COALESCE_MS` after a trigger, when a resync is due, or when the signal aborts. */
  async #waitForTrigger(signal: AbortSignal): Promise<void> {
    const { clock, resyncMs } = this.#options;
    const isResynced = this.#hasSucceeded && resyncMs !== undefined;
    await this.#trigger.wait(signal, isResynced ? { limitMs: untilBeat(resyncMs, clock), clock } : undefined);
    if (this.#trigger.isSet) await clock.sleep(COALESCE_MS, signal).catch(() => undefined);
  }

  async #waitForPause(signal: AbortSignal): Promise<void> {
    const { clock, pauseMs = 0 } = this.#options;
    const leftMs = this.#endedMs + pauseMs - clock.monotonic();
    if (leftMs > 0) await clock.sleep(leftMs, signal).catch(() => undefined);
  }
}
