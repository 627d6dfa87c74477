import { randomFill } from 'node:crypto';
import type { Clock } from '../base/clock.ts';

/** Calls of a slow disk or name server end sooner. */
const STUCK_MS = 10_000;

/** Work for a thread of the process that needs nothing else: no file, and no network. */
async function workOnThread(): Promise<void> {
  await new Promise<void>((resolve) => {
    randomFill(Buffer.alloc(1), () => resolve());
  });
}

/**
 * Notices that all threads of the process are held. File operations, name lookups and worker tasks then wait for ever, while
 * timers and sockets go on and everything looks well.
 */
export class ThreadPoolWatch {
  readonly #clock: Clock;
  readonly #work: () => Promise<void>;
  /** When the work that has not ended was begun, in milliseconds of the monotonic clock. */
  #sinceMs: number | undefined;

  constructor(clock: Clock, work: () => Promise<void> = workOnThread) {
    this.#clock = clock;
    this.#work = work;
  }

  /** Returns for how many milliseconds no thread has been free; 0 when one was within the last 10 s. */
  stuckMs(): number {
    const nowMs = this.#clock.monotonic();
    if (this.#sinceMs === undefined) {
      this.#sinceMs = nowMs;
      void this.#awaitWork();
    }
    const waitedMs = nowMs - this.#sinceMs;
    return waitedMs < STUCK_MS ? 0 : waitedMs;
  }

  async #awaitWork(): Promise<void> {
    await this.#work();
    this.#sinceMs = undefined;
  }
}

/** Returns why the process cannot do its work while no thread is free, as one sentence; none when one is. */
export function threadFailures(threads: Pick<ThreadPoolWatch, 'stuckMs'>): readonly string[] {
  const stuckMs = threads.stuckMs();
  if (stuckMs === 0) return [];
  return [`threads: none has been free for ${String(Math.round(stuckMs / 1000))} s: files and names are not read`];
}
