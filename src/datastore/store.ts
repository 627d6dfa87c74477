import type { AllocationStore } from './allocation-store.ts';
import type { NodeStatusStore } from './node-status-store.ts';
import type { PoolStatusStore } from './pool-status-store.ts';
import type { ResourceStore } from './resource-store.ts';
import type { FollowStore } from './follow.ts';

/** Reports whether the datastore serves the caller. */
export interface ConnectionProbe {
  /** Reads one small record to check that the datastore responds and accepts the caller. */
  ping(signal: AbortSignal): Promise<void>;
}

/** Servers of a datastore. */
export interface ServerList {
  /** Returns the origins of its servers, as configured or discovered; none for a datastore in this process. */
  servers(signal: AbortSignal): Promise<readonly string[]>;
}

/** Reader of the leader, where leases are keys of the datastore itself. */
export interface LeaderReader {
  /** Returns the process that holds the lease; undefined when none leads. */
  findLeader?(lease: string, signal: AbortSignal): Promise<string | undefined>;
}

/** The part of a datastore that one call of the runtime uses. */
export type CallStore = AllocationStore &
  Pick<ResourceStore, 'findResource' | 'listResources'> &
  ConnectionProbe &
  AsyncDisposable;

/**
 * All ports of a datastore; callers depend on the narrowest one. Every method honours the signal. Throws
 * `store/unavailable` when the datastore does not respond (the outcome of a commit is then unknown), and `store/refused`
 * when it rejects the credentials or rights of the caller.
 */
export interface Store
  extends
    AllocationStore,
    ResourceStore,
    NodeStatusStore,
    PoolStatusStore,
    FollowStore,
    LeaderReader,
    ConnectionProbe,
    ServerList,
    AsyncDisposable {}
