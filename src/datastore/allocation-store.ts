import type { IpBlock } from '../model/ip-block.ts';
import type { IpPool } from '../model/ip-pool.ts';
import type { IpReservation } from '../model/ip-reservation.ts';
import type { IpamConfigurationSpec } from '../model/ipam-configuration.ts';
import type { NodeName } from '../model/names.ts';
import type { SlotOperation } from '../model/slot-operation.ts';
import type { Node } from '../model/node.ts';
import type { EndpointId, WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Cidr } from '../net/cidr.ts';

/** What was read, with the opaque version a later change is compared against. */
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
  /** While it is, nobody may assign or release addresses. */
  readonly isLocked: boolean;
  /** The id of the cluster whose records these are; undefined until an agent has written one. */
  readonly clusterId: string | undefined;
  /** Blocks the node owns. */
  readonly owned: readonly Stored<IpBlock>[];
  /** Blocks of others in which the node holds at least one address. */
  readonly borrowed: readonly Stored<IpBlock>[];
  /** The endpoint asked for, when there is one. */
  readonly endpoint: Stored<WorkloadEndpoint> | undefined;
  /** How often this store has found the datastore older than it had been, as after a backup was restored. */
  readonly rollbacks: number;
  /** Records that could not be understood and were left out, for a warning each. */
  readonly problems: readonly string[];
  /** Reads the same again from the datastore. Set on a view that may lag behind it. */
  readonly latest?: (signal: AbortSignal) => Promise<NodeView>;
}

/** The part of a view that people write. */
export type NodeSettings = Pick<
  NodeView,
  'pools' | 'reservations' | 'config' | 'node' | 'isLocked' | 'clusterId' | 'problems'
>;

/** A block that exists, without its content. */
export interface Claim {
  readonly cidr: Cidr;
  readonly node: NodeName | undefined;
}

/** One part of a commit. Every part names what it expects, so that two writers never both win. */
export type Change =
  /**
   * Creates a block and applies the operations to it. Expects that no block claims the CIDR and that the pool is as it
   * was read; of a block without a pool, such as one copied from another datastore, nothing is expected of pools.
   */
  | {
      readonly kind: 'create-block';
      readonly block: IpBlock;
      readonly pool: Stored<IpPool> | undefined;
      readonly operations?: readonly SlotOperation[];
    }
  /**
   * Applies the operations to the block as it was read. `returned` are allocations that were returned to a caller: a
   * datastore without transactions keeps them once they are written, whatever becomes of the other changes.
   */
  | {
      readonly kind: 'update-block';
      readonly before: Stored<IpBlock>;
      readonly operations: readonly SlotOperation[];
      readonly returned?: ReadonlySet<string>;
    }
  | { readonly kind: 'delete-block'; readonly before: Stored<IpBlock> }
  /** Last writer wins: an endpoint describes the newest attachment. */
  | { readonly kind: 'put-endpoint'; readonly endpoint: WorkloadEndpoint }
  | { readonly kind: 'delete-endpoint'; readonly before: Stored<WorkloadEndpoint> }
  /** The pool is still as it was read, and goes. */
  | { readonly kind: 'delete-pool'; readonly before: Stored<IpPool> };

export interface EndpointListing {
  readonly endpoints: readonly Stored<WorkloadEndpoint>[];
  readonly problems: readonly string[];
  /**
   * Where endpoints are notes: the pods there are, `namespace/name` with the uid. That a pod has no note, or another,
   * proves nothing about its addresses.
   */
  readonly pods?: ReadonlyMap<string, string>;
}

/** `conflict`: something was not as expected and nothing was changed. */
export type Outcome = 'committed' | 'conflict';

/** Blocks, the addresses in them, and endpoints: everything that an assignment or a release reads and writes. */
export interface AllocationStore {
  /** Of a datastore where endpoints are notes on pods, which the owner of the pod may change, and which may be missing. */
  readonly endpointsAreNotes?: true;

  /** Whether a version was written before another one of the same record; false where the datastore does not tell. */
  isOlder(version: string, than: string): boolean;

  readNodeView(node: NodeName, endpoint: EndpointId | undefined, signal: AbortSignal): Promise<NodeView>;

  /** All claims that overlap one of the CIDRs, ordered by CIDR. */
  listClaims(within: readonly Cidr[], signal: AbortSignal): Promise<readonly Claim[]>;

  /** Those of the named blocks that exist, in the order asked for. */
  getBlocks(cidrs: readonly Cidr[], signal: AbortSignal): Promise<readonly Stored<IpBlock>[]>;

  /** Every block there is, ordered by CIDR. For tools and the slow path; `problems` names unreadable records. */
  listBlocks(signal: AbortSignal): Promise<{ blocks: readonly Stored<IpBlock>[]; problems: readonly string[] }>;

  /** All changes or none (design D2). A datastore without transactions orders them so that the block decides. */
  commit(changes: readonly Change[], signal: AbortSignal): Promise<Outcome>;

  /** Endpoints of one node, or all, ordered by namespace and name; `problems` names unreadable records. */
  listEndpoints(node: NodeName | undefined, signal: AbortSignal): Promise<EndpointListing>;
}
