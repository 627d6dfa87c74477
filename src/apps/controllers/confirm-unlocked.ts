import { isNetplugError, NetplugError } from '../../base/errors.ts';
import { CLUSTER_INFORMATION_ID, isLocked } from '../../model/cluster-information.ts';
import type { ControllerPorts } from './controller.ts';

/** Time for which a reading counts. A lock expects that writes have ended 2 s later. */
const FRESH_MS = 250;

/** Returns `ControllerPorts.confirmUnlocked`. */
export function confirmsUnlocked({
  store,
  clock,
}: Pick<ControllerPorts, 'store' | 'clock'>): ControllerPorts['confirmUnlocked'] {
  let unlockedAtMs = Number.NEGATIVE_INFINITY;
  return async (signal) => {
    const startMs = clock.monotonic();
    if (startMs - unlockedAtMs < FRESH_MS) return;
    const cluster = await store.findResource(CLUSTER_INFORMATION_ID, signal).catch((cause: unknown): undefined => {
      // Such a record does not lock.
      if (!isNetplugError(cause, 'store/corrupt')) throw cause;
    });
    if (isLocked(cluster))
      throw new NetplugError('store/locked', 'Cannot write: the datastore is locked for maintenance', {
        hint: 'None needed: the controller goes on when it is unlocked',
      });
    unlockedAtMs = startMs;
  };
}
