import type { AllocationStore } from './allocation-store.ts';
import type { NodeStatusStore } from './node-status-store.ts';
import type { ResourceStore } from './resource-store.ts';
import type { FollowStore } from './follow.ts';

/** Reports whether the datastore serves the caller. */
export interface ConnectionProbe {
  /** One cheap read that proves the datastore answers and accepts the caller. */
  ping(signal: AbortSignal): Promise<void>;
}

/** What one call of the runtime uses of a datastore. */
export type CallStore = AllocationStore & Pick<ResourceStore, 'listResources'> & ConnectionProbe & AsyncDisposable;

/**
 * Everything a datastore does; its users depend on the narrowest of these ports. Every method honours the signal, and
 * throws `store/unavailable` when the datastore does not answer (a commit may then have happened or not),
 * `store/refused` when it refuses the caller.
 */
export interface Store
  extends AllocationStore, ResourceStore, NodeStatusStore, FollowStore, ConnectionProbe, AsyncDisposable {}
