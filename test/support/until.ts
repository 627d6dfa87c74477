import { setTimeout as sleep } from 'node:timers/promises';

/** Waits for an observable, looking every `periodMs`, and says what was waited for when it does not come within `deadlineMs`. */
export async function until(
  isTrue: () => boolean | Promise<boolean>,
  what: string | (() => string),
  deadlineMs = 20_000,
  periodMs = 20,
): Promise<void> {
  const end = Date.now() + deadlineMs;
  while (!(await isTrue())) {
    if (Date.now() > end)
      throw new Error(`waited ${String(deadlineMs)} ms until ${typeof what === 'string' ? what : what()}`);
    await sleep(periodMs);
  }
}
