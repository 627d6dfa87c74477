import { setTimeout as sleep } from 'node:timers/promises';

/** How long tests wait for what comes within moments on an idle machine, and later where other programs use every core. */
export const PATIENCE_MS = 60_000;

/** A condition that starts programs would keep a core busy: it is evaluated a third of the time, and at least twice a second. */
const IDLE_SHARE = 2;
const LONGEST_MS = 500;

/**
 * Waits until the condition is true, evaluating it every `periodMs`, or less often when that takes long. Rejects with what was waited for after `deadlineMs`.
 * Give a deadline only where the time is what the test claims, or where the default is too short.
 */
export async function until(
  isTrue: () => boolean | Promise<boolean>,
  what: string | (() => string),
  deadlineMs = PATIENCE_MS,
  periodMs = 20,
): Promise<void> {
  const end = Date.now() + deadlineMs;
  for (;;) {
    const beganMs = performance.now();
    if (await isTrue()) return;
    if (Date.now() > end)
      throw new Error(`waited ${String(deadlineMs)} ms until ${typeof what === 'string' ? what : what()}`);
    await sleep(Math.max(periodMs, Math.min(IDLE_SHARE * (performance.now() - beganMs), LONGEST_MS)));
  }
}
