import type { Clock } from './clock.ts';
import { ERRORS } from './error-codes.ts';
import { NetplugError } from './errors.ts';
import type { Random } from './random.ts';

/** What waiting between tries needs. */
export interface Patience {
  readonly clock: Clock;
  readonly random: Random;
}

/** The longest pause of `backOff`, in milliseconds. */
const LONGEST_MS = 2000;

/** Waits before try number `attempt` (from 0): not before the first, then a random part of 2, 4, 8 … up to 2000 ms. */
export async function backOff({ clock, random }: Patience, attempt: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (attempt === 0) return;
  await clock.sleep(1 + random.int(Math.min(LONGEST_MS, 2 ** attempt)), signal);
}

/** The shortest and the longest pause between tries that go on until one succeeds, in milliseconds. */
export interface Pauses {
  readonly firstMs: number;
  readonly longestMs: number;
  /** The longest pause after an error that lasts until an administrator acts, such as a refusal. */
  readonly longestRefusedMs: number;
}

/**
 * Returns how long to pause after the given number of failures in a row, counted from 1. The pause doubles up to its
 * limit. Half of it is random, so that the nodes of a cluster do not return at the same moment.
 */
export function pauseMs(
  { failures, cause }: { readonly failures: number; readonly cause: unknown },
  { firstMs, longestMs, longestRefusedMs }: Pauses,
  random: Random,
): number {
  const isRefused = cause instanceof NetplugError && !ERRORS[cause.code].retry;
  const limitMs = isRefused ? longestRefusedMs : longestMs;
  const wholeMs = Math.min(limitMs, firstMs * 2 ** (failures - 1));
  return Math.ceil(wholeMs / 2) + random.int(1 + Math.floor(wholeMs / 2));
}
