/** Time as a port, so that waiting can be tested without waiting. */
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
      }, ms);
      signal.addEventListener('abort', onAbort, { once: true });
    }),
};

/** A limit of time that leaves nothing behind when it is cleared. It does not keep the process alive. */
export interface TimeLimit extends Disposable {
  /** Aborted when the time is over. */
  readonly signal: AbortSignal;
}

/** One signal per limit: the timers of `AbortSignal.timeout` go on to their end, hundreds of them after a busy minute. */
export function timeLimit(ms: number, reason: () => unknown = timeIsOver): TimeLimit {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(reason()), ms).unref();
  return { signal: over.signal, [Symbol.dispose]: () => clearTimeout(timer) };
}

function timeIsOver(): unknown {
  return new DOMException('the time is over', 'TimeoutError');
}

/** Calls `beat` again and again until the signal ends it. It does not keep the process alive. */
export function repeat(beat: () => void, everyMs: number, signal: AbortSignal): void {
  if (signal.aborted) return;
  const timer = setInterval(beat, everyMs).unref();
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
}

/** A clock that stands still until something sleeps on it; sleeping moves it on at once. */
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
