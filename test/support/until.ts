import { setTimeout as sleep } from 'node:timers/promises';

/** How long tests wait for what comes within moments on an idle machine, and later where other programs use every core. */
export const PATIENCE_MS = 60_000;

/**
 * Waits until the condition is true, evaluating it every `periodMs`. Rejects with what was waited for after `deadlineMs`.
 * Give a deadline only where the time is what the test claims, or where the default is too short.
 */
export async function until(
  isTrue: () => boolean | Promise<boolean>,
  what: string | (() => string),
  deadlineMs = PATIENCE_MS,
  periodMs = 20,
): Promise<void> {
  const end = Date.now() + deadlineMs;
  while (!(await isTrue())) {
    if (Date.now() > end)
      throw new Error(`waited ${String(deadlineMs)} ms until ${typeof what === 'string' ? what : what()}`);
    await sleep(periodMs);
  }
}
