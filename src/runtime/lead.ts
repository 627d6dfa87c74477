import { BackOff, type RetryPorts, withJitter } from '../base/back-off.ts';
import { timeLimit } from '../base/clock.ts';
import { reasonOf } from '../base/errors.ts';
import { untilAborted } from '../base/until-aborted.ts';
import type { Log } from '../base/log.ts';
import type { LeaderLease } from './leader-lease.ts';

const RELEASE_MS = 3000;

export interface Leadership {
  /** Aborts when the leadership ends. The work must have ended a third of the lease's duration later. */
  readonly signal: AbortSignal;
  /** Reports whether the leadership lasts at this moment. Correct also right after the process was paused. */
  readonly isHeld: () => boolean;
}

export interface LeaderPorts extends RetryPorts {
  readonly lease: LeaderLease;
  readonly log: Log;
}

/**
 * Campaigns for the lease and runs the work whenever this process leads, until the signal aborts or the work returns.
 * A leader that cannot renew ends its leadership after two thirds of the lease's duration, before another process can
 * acquire the lease. Releases the lease at the end. @throws what the work throws
 */
export async function lead(
  ports: LeaderPorts,
  work: (leadership: Leadership) => Promise<void>,
  stop: AbortSignal,
): Promise<void> {
  const { lease, log } = ports;
  try {
    for (;;) {
      const sinceMs = await campaign(ports, stop);
      if (sinceMs === undefined) return;
      log.info('leadership acquired');
      const term = new Term(ports, sinceMs, stop);
      await Promise.all([term.renew(), work(term).finally(() => term.end())]);
      if (!term.isLost) return;
      log.warning('leadership lost', { reason: term.lossReason });
    }
  } finally {
    using limit = timeLimit(RELEASE_MS);
    await lease.release(limit.signal).catch((cause: unknown) => {
      log.warning('leader lease not released', { reason: reasonOf(cause) });
    });
  }
}

/** Waits until this process holds the lease. Returns since when, on the monotonic clock; undefined when the signal aborts first. */
async function campaign({ lease, log, ...retry }: LeaderPorts, stop: AbortSignal): Promise<number | undefined> {
  const { clock, random } = retry;
  const backOff = new BackOff(retry, { firstMs: lease.durationMs / 30, maxMs: lease.durationMs / 3 });
  while (!stop.aborted) {
    const startMs = clock.monotonic();
    try {
      using limit = timeLimit(lease.durationMs / 3);
      if (await lease.hold(AbortSignal.any([stop, limit.signal]))) return startMs;
      backOff.succeed();
    } catch (cause) {
      if (!stop.aborted && backOff.fail(cause) === 1)
        log.warning('leader lease unavailable', { reason: reasonOf(cause) });
      await backOff.wait(stop);
      continue;
    }
    const over = new AbortController();
    const signal = AbortSignal.any([stop, over.signal]);
    const pause = clock.sleep(withJitter(lease.durationMs / 3, random), signal).catch(() => undefined);
    await Promise.race([pause, lease.released(signal).catch(async () => pause)]);
    over.abort();
  }
  return undefined;
}

/** One term of leadership, from acquiring the lease to losing or releasing it. */
class Term implements Leadership {
  readonly signal: AbortSignal;
  readonly #ports: LeaderPorts;
  readonly #stop: AbortSignal;
  readonly #ended = new AbortController();
  /** When the leadership ends unless the lease is renewed, on the monotonic clock. */
  #untilMs: number;
  #lossReason: string | undefined;

  constructor(ports: LeaderPorts, sinceMs: number, stop: AbortSignal) {
    this.#ports = ports;
    this.#stop = stop;
    this.signal = AbortSignal.any([stop, this.#ended.signal]);
    this.#untilMs = this.#endAfter(sinceMs);
  }

  readonly isHeld = (): boolean => !this.signal.aborted && this.#ports.clock.monotonic() < this.#untilMs;

  get isLost(): boolean {
    return this.#lossReason !== undefined && !this.#stop.aborted;
  }

  get lossReason(): string | undefined {
    return this.#lossReason;
  }

  end(): void {
    this.#ended.abort();
  }

  /** Renews the lease until the leadership ends. */
  async renew(): Promise<void> {
    const { clock, lease } = this.#ports;
    // No other process renews it, so there is no step to keep out of.
    const pauseMs = lease.durationMs / 3;
    let waitMs = pauseMs;
    let problem = 'the process was paused';
    for (;;) {
      const leftMs = this.#untilMs - clock.monotonic();
      await clock.sleep(Math.max(0, Math.min(leftMs, waitMs)), this.signal).catch(() => undefined);
      const startMs = clock.monotonic();
      if (this.signal.aborted) return;
      if (startMs >= this.#untilMs) return this.#lose(problem);
      using limit = timeLimit(this.#untilMs - startMs);
      try {
        if (!(await untilAborted(lease.hold(AbortSignal.any([this.signal, limit.signal])), limit.signal)))
          return this.#lose('another process holds the lease');
        this.#untilMs = this.#endAfter(startMs);
        waitMs = pauseMs;
      } catch (cause) {
        problem = `cannot renew the lease: ${reasonOf(cause)}`;
        waitMs = lease.durationMs / 30;
      }
    }
  }

  #endAfter(heldFromMs: number): number {
    return heldFromMs + (this.#ports.lease.durationMs * 2) / 3;
  }

  #lose(reason: string): void {
    this.#lossReason = reason;
    this.end();
  }
}
