/** The port to time. */
export interface Clock {
  /** Wall clock, milliseconds since the epoch. */
  readonly now: () => number;
  /** Monotonic milliseconds, for durations. */
  readonly monotonic: () => number;
  /** Resolves after `ms`; rejects with the signal's reason when aborted first. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const onAbort = (): void => {
        clearTimeout(timer);
        reject(signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason)));
      };
      const timer = setTimeout(() => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      }, atLeastNow(ms));
      signal.addEventListener('abort', onAbort, { once: true });
    }),
};

/**
 * Returns a function that returns how long ago it was made, in milliseconds, by the clock on which more has passed: the monotonic one
 * stands still while a virtual machine is paused. A wall clock that is set makes the time longer, never shorter.
 */
export function stopwatch({ now, monotonic }: Pick<Clock, 'now' | 'monotonic'>): () => number {
  const [wallMs, startMs] = [now(), monotonic()];
  return () => Math.max(monotonic() - startMs, Math.abs(now() - wallMs));
}

/** A timeout that can be cleared. It does not keep the process alive. */
export interface TimeLimit extends Disposable {
  /** Aborted when the timeout expires. */
  readonly signal: AbortSignal;
}

/** Starts a timeout whose timer can be cleared; timers of `AbortSignal.timeout` run to their end, hundreds at a time. */
export function timeLimit(ms: number, reason: () => unknown = timeIsOver): TimeLimit {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(reason()), atLeastNow(ms)).unref();
  return { signal: over.signal, [Symbol.dispose]: () => clearTimeout(timer) };
}

/** A time that is over when the loop of the process comes to it is now: Node warns of a negative one. */
function atLeastNow(ms: number): number {
  return Math.max(0, ms);
}

function timeIsOver(): unknown {
  return new DOMException('timed out', 'TimeoutError');
}

/**
 * Returns how long a periodic check sleeps until the next multiple of its period, in milliseconds. All checks of a process
 * then wake it up together, because an idle process spends more on waking up than on the checks.
 */
export function untilBeat(periodMs: number, { monotonic }: Pick<Clock, 'monotonic'>): number {
  return Math.ceil(periodMs - (monotonic() % periodMs)) + 1;
}

/**
 * Calls `beat` periodically until the signal aborts, first after a whole period, and never twice within half a period. Does
 * not keep the process alive.
 */
export function repeat(beat: () => void, everyMs: number, signal: AbortSignal): void {
  if (signal.aborted) return;
  const onBeat = (): void => {
    const leftMs = untilBeat(everyMs, systemClock);
    timer = setTimeout(onBeat, leftMs < everyMs / 2 ? leftMs + everyMs : leftMs).unref();
    beat();
  };
  let timer = setTimeout(onBeat, everyMs + untilBeat(everyMs, systemClock)).unref();
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
}

/** Returns a clock that only `sleep` advances, without waiting. */
export function virtualClock(start = 0): Clock {
  let now = start;
  return {
    now: () => now,
    monotonic: () => now,
    sleep: async (ms, signal) => {
      signal.throwIfAborted();
      now += ms;
      await Promise.resolve();
    },
  };
}
