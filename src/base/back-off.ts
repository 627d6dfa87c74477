import type { Clock } from './clock.ts';
import { ERRORS } from './error-codes.ts';
import { NetplugError } from './errors.ts';
import type { Random } from './random.ts';
import { Trigger } from './trigger.ts';

/** The dependencies of a back-off. */
export interface RetryPorts {
  readonly clock: Clock;
  readonly random: Random;
}

/** Time to wait between attempts, in milliseconds. The wait doubles with each failure in a row, up to its limit. */
export interface BackOffPolicy {
  readonly firstMs: number;
  readonly maxMs: number;
  /** The limit after an error that lasts until an administrator acts, such as a refusal; `maxMs` unless given. */
  readonly maxRefusedMs?: number;
}

/** For long-lived work. */
const WATCHES: BackOffPolicy = { firstMs: 100, maxMs: 5000, maxRefusedMs: 30_000 };
/** For writes that a concurrent write invalidated. */
const CONFLICT: BackOffPolicy = { firstMs: 2, maxMs: 2000 };

/** Returns between half of `ms` and all of it, so that the nodes of a cluster do not retry at the same moment. */
export function withJitter(ms: number, random: Random): number {
  return Math.ceil(ms / 2) + random.int(1 + Math.floor(ms / 2));
}

/** Returns how long to wait, in milliseconds, after `failures` failures in a row, the last for `cause`. */
export function backOffMs(
  { firstMs, maxMs, maxRefusedMs = maxMs }: BackOffPolicy,
  { failures, cause }: { readonly failures: number; readonly cause?: unknown },
  random: Random,
): number {
  const isRefused = cause instanceof NetplugError && !ERRORS[cause.code].retry;
  return withJitter(Math.min(isRefused ? maxRefusedMs : maxMs, firstMs * 2 ** (failures - 1)), random);
}

/** Waits before the next attempt after `conflicts` conflicts; returns at once when there was none. @throws the signal's reason */
export async function backOffConflict(
  { clock, random }: RetryPorts,
  conflicts: number,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  if (conflicts > 0) await clock.sleep(backOffMs(CONFLICT, { failures: conflicts }, random), signal);
}

/** Counts the failures of work that is retried until it succeeds, or restarted whenever it ends, and waits after each. */
export class BackOff {
  readonly #ports: RetryPorts;
  readonly #policy: BackOffPolicy;
  #failures = 0;
  #startedMs = Number.POSITIVE_INFINITY;
  #cause: unknown;

  constructor({ clock, random }: RetryPorts, policy: BackOffPolicy) {
    this.#ports = { clock, random };
    this.#policy = policy;
  }

  /** Notes that long-lived work such as a watch starts: a failure after the longest wait counts as the first. */
  start(): void {
    this.#startedMs = this.#ports.clock.monotonic();
  }

  /** Notes that the work failed. Returns the number of failures in a row. */
  fail(cause: unknown): number {
    const { maxMs, maxRefusedMs = maxMs } = this.#policy;
    const hasLasted = this.#ports.clock.monotonic() - this.#startedMs > Math.max(maxMs, maxRefusedMs);
    this.#failures = hasLasted ? 1 : this.#failures + 1;
    this.#cause = cause;
    return this.#failures;
  }

  succeed(): void {
    this.#failures = 0;
    this.#cause = undefined;
  }

  /** Waits before the next attempt, at least as long as after one failure. Returns early when the signal aborts, or `early` is set. */
  async wait(signal: AbortSignal, early = new Trigger()): Promise<void> {
    const { clock, random } = this.#ports;
    const failed = { failures: Math.max(1, this.#failures), cause: this.#cause };
    await early.wait(signal, { limitMs: backOffMs(this.#policy, failed, random), clock });
  }
}

/** Long-lived work such as a watch. It may also return. */
export interface LastingWork {
  readonly work: () => Promise<void>;
  /** Receives the cause and the number of failures in a row. */
  readonly onFailure: (cause: unknown, failures: number) => void;
}

/** Restarts the work whenever it ends, after a wait, until the signal aborts. */
export async function keepRunning(
  ports: RetryPorts,
  { work, onFailure }: LastingWork,
  signal: AbortSignal,
): Promise<void> {
  const backOff = new BackOff(ports, WATCHES);
  while (!signal.aborted) {
    backOff.start();
    try {
      await work();
    } catch (cause) {
      if (signal.aborted) return;
      onFailure(cause, backOff.fail(cause));
    }
    await backOff.wait(signal);
  }
}
