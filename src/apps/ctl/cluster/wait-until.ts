import type { Clock } from '../../../base/clock.ts';
import { type NetplugError, reasonOf } from '../../../base/errors.ts';

const POLL_MS = 1000;

export interface WaitPorts {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onProgress: (text: string) => void;
}

/** Result that was waited for, or what is still open, in one line. */
export type WaitState<T> = { readonly found: T } | { readonly open: string };

/**
 * Looks until it is found, and shows what is open whenever that changes. When the signal aborts, throws what `failed` makes of
 * what is open and why: a time limit, or an interruption.
 */
export async function waitUntil<T>(
  { clock, signal, onProgress }: WaitPorts,
  look: () => Promise<WaitState<T>>,
  failed: (open: string, why: string) => NetplugError,
): Promise<T> {
  let said: string | undefined;
  for (;;) {
    const seen = await look();
    if ('found' in seen) return seen.found;
    const { open } = seen;
    if (open !== said) onProgress(open);
    said = open;
    await clock.sleep(POLL_MS, signal).catch((cause: unknown) => {
      throw failed(open, reasonOf(cause));
    });
  }
}
