import type { HeldAddress, IpBlock } from '../model/ip-block.ts';
import type { IpPool } from '../model/ip-pool.ts';
import type { IpReservation } from '../model/ip-reservation.ts';
import type { IpamConfigurationSpec } from '../model/ipam-configuration.ts';
import type { NodeName } from '../model/names.ts';
import type { SlotOperation } from '../model/slot-operation.ts';
import type { Node } from '../model/node.ts';
import type { EndpointId, WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Cidr } from '../net/cidr.ts';

/** A record that was read, with the opaque version that a later change expects. */
export interface Stored<T> {
  readonly value: T;
  readonly version: string;
}

/** Everything one node needs to assign or release an address, read at one moment. */
export interface NodeView {
  readonly pools: readonly Stored<IpPool>[];
  readonly reservations: readonly IpReservation[];
  readonly config: IpamConfigurationSpec;
  /** The Node resource, when there is one. */
  readonly node: Node | undefined;
  /** Whether the datastore is locked for maintenance: no process may assign or release addresses. */
  readonly isLocked: boolean;
  /** The id of the cluster whose records these are; undefined until an agent has written one. */
  readonly clusterId: string | undefined;
  /** Blocks the node owns. */
  readonly owned: readonly Stored<IpBlock>[];
  /** Blocks of other nodes in which the node holds at least one address. */
  readonly borrowed: readonly Stored<IpBlock>[];
  /** The requested endpoint, when it exists. */
  readonly endpoint: Stored<WorkloadEndpoint> | undefined;
  /** Number of times that this store has observed the datastore at an older revision than before, as after a restore. */
  readonly rollbacks: number;
  /** Records that could not be understood and were left out, for a warning each. */
  readonly problems: readonly string[];
  /** Reads the view again from the datastore. Set on a view that may lag behind it. */
  readonly latest?: (signal: AbortSignal) => Promise<NodeView>;
  /** Returns how certain an address is by now that the view shows as held. Set together with `latest`. */
  readonly certaintyOf?: (held: HeldAddress) => Certainty;
}

/**
 * - `decided`: not written yet, and retried until it is
 * - `revocable`: may be taken back because its caller gives up or its process has ended, or has been
 * - `recorded`: the datastore has recorded it, as far as the node knows
 */
export type Certainty = 'decided' | 'revocable' | 'recorded';

/** The part of a view that users write. */
export type NodeSettings = Pick<
  NodeView,
  'pools' | 'reservations' | 'config' | 'node' | 'isLocked' | 'clusterId' | 'problems'
>;

/** A block that exists, without its content. */
export interface Claim {
  readonly cidr: Cidr;
  readonly node: NodeName | undefined;
}

/** An endpoint as it was read. */
export type EndpointBefore = Stored<WorkloadEndpoint> | 'none';

/** Returns what a write of the endpoint expects; nothing while unreadable records may hide it. */
export function endpointBefore(
  endpoint: Stored<WorkloadEndpoint> | undefined,
  { problems }: Pick<NodeView, 'problems'>,
): { readonly over?: EndpointBefore } {
  if (endpoint !== undefined) return { over: endpoint };
  return problems.length > 0 ? {} : { over: 'none' };
}

/** One part of a commit. Every part names the state that it expects, so that of two concurrent writers one conflicts. */
export type Change =
  /**
   * Creates a block and applies the operations to it. Expects that no block claims the CIDR and that the pool is unchanged.
   * A block copied from another datastore names no pool, and expects nothing of pools.
   */
  | {
      readonly kind: 'create-block';
      readonly block: IpBlock;
      readonly pool: Stored<IpPool> | undefined;
      readonly operations?: readonly SlotOperation[];
    }
  /**
   * Applies the operations to the block as it was read. `returned` are allocations that were returned to a caller: a
   * datastore without transactions keeps them once they are written, even when the other changes fail.
   */
  | {
      readonly kind: 'update-block';
      readonly before: Stored<IpBlock>;
      readonly operations: readonly SlotOperation[];
      readonly returned?: ReadonlySet<string>;
    }
  | {
      readonly kind: 'delete-block';
      readonly before: Stored<IpBlock>;
      /** When the addresses that it holds were released, in seconds since 1970, for a block that cannot be deleted any more. */
      readonly releasedAt?: number | undefined;
    }
  /**
   * With `over`, expects that the endpoint is as it was read, or that there is none, where endpoints are records: a write of a
   * process that died may arrive after its successor has written. Without it the last writer wins.
   */
  | {
      readonly kind: 'put-endpoint';
      readonly endpoint: WorkloadEndpoint;
      readonly over?: EndpointBefore;
    }
  /** `unlessHeld`, of an undo: it stays while its attachment holds an address, which another call has taken over. */
  | { readonly kind: 'delete-endpoint'; readonly before: Stored<WorkloadEndpoint>; readonly unlessHeld?: boolean }
  /** Deletes the pool. Expects that it is unchanged. */
  | { readonly kind: 'delete-pool'; readonly before: Stored<IpPool> };

export interface BlockListing {
  readonly blocks: readonly Stored<IpBlock>[];
  readonly problems: readonly string[];
}

export interface EndpointListing {
  readonly endpoints: readonly Stored<WorkloadEndpoint>[];
  readonly problems: readonly string[];
  /**
   * Where blocks and endpoints are not written at once: uids of the existing pods by `namespace/name`, undefined for mirror pods.
   * A missing endpoint proves nothing about the addresses of a pod that exists. Only of all nodes.
   */
  readonly pods?: ReadonlyMap<string, string | undefined>;
}

/** `conflict`: a record was not in the expected state, and nothing was changed. */
export type Outcome = 'committed' | 'conflict';

/** The time in which no other user of a shared store reads blocks to write them. */
export interface StoreTurn extends Disposable {
  /** Whether another user may have written since the turn was asked for. */
  readonly hasWaited: boolean;
}

/** Blocks, the addresses in them, and endpoints: everything that an assignment or a release reads and writes. */
export interface AllocationStore {
  /** Reports whether a version was written before another one of the same record; false where versions have no order. */
  isOlder(version: string, than: string): boolean;

  readNodeView(node: NodeName, endpoint: EndpointId | undefined, signal: AbortSignal): Promise<NodeView>;

  /** Returns all claims that overlap one of the CIDRs, ordered by CIDR. */
  listClaims(within: readonly Cidr[], signal: AbortSignal): Promise<readonly Claim[]>;

  /** Returns the named blocks that exist, in the given order. */
  getBlocks(cidrs: readonly Cidr[], signal: AbortSignal): Promise<readonly Stored<IpBlock>[]>;

  /** Returns every block, ordered by CIDR. For tools and the slow path; `problems` names unreadable records. */
  listBlocks(signal: AbortSignal): Promise<BlockListing>;

  /**
   * Waits until no other user of this store reads blocks to write them, for a limited time. Present where many calls share
   * the store, so that they do not conflict with each other.
   */
  takeTurn?(signal: AbortSignal): Promise<StoreTurn>;

  /**
   * Commits all changes or none. A datastore without transactions orders them so that the block decides. `onDecided` is called by a
   * store that decides by itself, when only a crash could still undo the changes: before they survive one.
   */
  commit(changes: readonly Change[], signal: AbortSignal, onDecided?: () => void): Promise<Outcome>;

  /** Returns the endpoints of one node, or all, ordered by namespace and name; `problems` names unreadable records. */
  listEndpoints(node: NodeName | undefined, signal: AbortSignal): Promise<EndpointListing>;
}
