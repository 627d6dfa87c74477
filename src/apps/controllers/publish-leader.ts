import { type Clock, timeLimit } from '../../base/clock.ts';
import { reasonOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { LeaderLease } from '../../runtime/leader-lease.ts';

/** Renewals during the duration of the lease, and tries after one that has failed. */
const RENEWALS = 2;
const TRIES = 12;
const RELEASE_MS = 2000;

/**
 * Shows in a lease of the orchestrator who leads, where another lease decides that: fencing needs the one of the datastore.
 * Never rejects: who leads does so without it.
 */
export async function publishLeader(
  { lease, clock, log }: { readonly lease: LeaderLease; readonly clock: Clock; readonly log: Log },
  signal: AbortSignal,
): Promise<void> {
  let hasFailed = false;
  while (!signal.aborted) {
    try {
      using limit = timeLimit(lease.durationMs / TRIES);
      hasFailed = !(await lease.hold(AbortSignal.any([signal, limit.signal])));
    } catch (cause) {
      if (!signal.aborted && !hasFailed) log.warning('leader not published', { reason: reasonOf(cause) });
      hasFailed = true;
    }
    await clock.sleep(lease.durationMs / (hasFailed ? TRIES : RENEWALS), signal).catch(() => undefined);
  }
  using limit = timeLimit(RELEASE_MS);
  await lease.release(limit.signal).catch(() => undefined);
}
