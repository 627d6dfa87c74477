import type { Clock } from '../base/clock.ts';
import { isUnknownKind } from './answers.ts';

/** After this time an API server that does not serve a kind is asked again: it may have been upgraded. */
const UNSERVED_MS = 3_600_000;

/**
 * Runs the watch of a kind that older API servers do not serve. With such a server it calls `onUnserved`, and returns after an
 * hour.
 */
export async function watchIfServed(
  clock: Clock,
  { watch, onUnserved }: { readonly watch: () => Promise<void>; readonly onUnserved: () => void },
  signal: AbortSignal,
): Promise<void> {
  try {
    await watch();
  } catch (cause) {
    if (!isUnknownKind(cause)) throw cause;
    onUnserved();
    await clock.sleep(UNSERVED_MS, signal);
  }
}
