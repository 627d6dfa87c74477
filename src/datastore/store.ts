import type { Mode } from '../base/mode.ts';
import type { IpBlock } from '../model/ip-block.ts';
import type { IpPool } from '../model/ip-pool.ts';
import type { IpReservation } from '../model/ip-reservation.ts';
import type { IpamConfigurationSpec } from '../model/ipam-configuration.ts';
import type { NodeName } from '../model/names.ts';
import type { Node, NodeSpec } from '../model/node.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../model/kinds.ts';
import type { ResourceId } from '../model/resource-id.ts';
import type { EndpointId, WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';

/** What the orchestrator is told about the network of a node. */
export interface NetworkReport {
  readonly isUp: boolean;
  /** One word in CamelCase. */
  readonly reason: string;
  readonly message: string;
}

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
}

/** The part of a view that people write. */
export type NodeSettings = Pick<
  NodeView,
  'pools' | 'reservations' | 'config' | 'node' | 'isLocked' | 'clusterId' | 'problems'
>;

/** Kinds that make the settings of a node. */
export type SettingKind = 'IPPool' | 'IPReservation' | 'IPAMConfiguration' | 'Node' | 'ClusterInformation';

/** One thing a watcher of a node is told. Versions are as good for a commit as those that were read. */
export type NodeChange =
  /** Everything there is: what was known before is forgotten. Always the first. */
  | {
      readonly kind: 'all';
      readonly view: Omit<NodeView, 'endpoint' | 'rollbacks'>;
      /** Of the node, ordered by namespace and name. */
      readonly endpoints: readonly Stored<WorkloadEndpoint>[];
    }
  /** A block that the node owns or has borrowed from; undefined when it is gone, unreadable or concerns the node no more. */
  | { readonly kind: 'block'; readonly cidr: Cidr; readonly block: Stored<IpBlock> | undefined }
  /** An endpoint of the node; undefined when it is gone or unreadable. */
  | { readonly kind: 'endpoint'; readonly id: EndpointId; readonly endpoint: Stored<WorkloadEndpoint> | undefined }
  /** All settings as they are now; problems with blocks and endpoints are among theirs. */
  | { readonly kind: 'settings'; readonly settings: NodeSettings };

/** A block as far as routes to it go. */
export interface RoutedBlock {
  readonly cidr: Cidr;
  readonly node: NodeName | undefined;
  /** The addresses of the block that nodes other than its owner hold. */
  readonly borrowed: ReadonlyMap<NodeName, readonly Address[]>;
}

/**
 * One thing a watcher of the whole cluster is told. Resources come without `metadata.resourceVersion`: a change of nothing
 * else is not told.
 */
export type ClusterChange =
  /** Everything there is: what was known before is forgotten. Always the first. */
  | {
      readonly kind: 'all';
      /** Every pool, node and BGP resource that can be read, in no order. */
      readonly resources: readonly RoutingResource[];
      readonly blocks: readonly RoutedBlock[];
      /** Records that could not be understood and were left out, for a warning each. */
      readonly problems: readonly string[];
    }
  /** Undefined when it is gone or unreadable. */
  | {
      readonly kind: 'resource';
      readonly which: { readonly kind: RoutingResource['kind']; readonly name: string };
      readonly resource: RoutingResource | undefined;
      /** Why it cannot be read, or what of it was left out. */
      readonly problem?: string;
    }
  | {
      readonly kind: 'block';
      readonly cidr: Cidr;
      readonly block: RoutedBlock | undefined;
      /** What of it could not be read and was left out. */
      readonly problem?: string;
    };

/** Kinds that routes between nodes depend on. */
export const ROUTING_KINDS = [
  'IPPool',
  'Node',
  'BGPConfiguration',
  'BGPPeer',
] as const satisfies readonly ResourceKind[];
export type RoutingResource = ResourceOf<(typeof ROUTING_KINDS)[number]>;

/** One thing a watcher of the resources of one kind is told. */
export type ResourceChange<K extends ResourceKind = ResourceKind> =
  /** Everything there is, ordered by namespace and name. Always the first, and told once. */
  | { readonly kind: 'all'; readonly resources: readonly ResourceOf<K>[]; readonly problems: readonly string[] }
  /** New, or another than before; `problem` says what of it was left out. */
  | { readonly kind: 'put'; readonly resource: ResourceOf<K>; readonly problem?: string }
  /** Deleted; or it cannot be read any more, and `problem` says why. */
  | { readonly kind: 'gone'; readonly which: ResourceId<K>; readonly problem?: string };

/** What a node's agent tells the others about its node. */
export type NodeFacts = Pick<
  NodeSpec,
  'ipv4VXLANTunnelAddr' | 'vxlanTunnelMACAddr' | 'ipv6VXLANTunnelAddr' | 'vxlanTunnelMACAddrV6' | 'ipv4IPIPTunnelAddr'
> &
  Pick<NonNullable<NodeSpec['bgp']>, 'ipv4Address' | 'ipv6Address'>;

/** A block that exists, without its content. */
export interface Claim {
  readonly cidr: Cidr;
  readonly node: NodeName | undefined;
}

/** One part of a commit. Every part names what it expects, so that two writers never both win. */
export type Change =
  /**
   * The CIDR is claimed by nobody, and the pool is still as it was read. Without a pool, as for a block that comes from
   * another datastore, nothing is asked of pools.
   */
  | { readonly kind: 'create-block'; readonly block: IpBlock; readonly pool: Stored<IpPool> | undefined }
  /**
   * The block is still as it was read; its owner may change with it. `told` are allocations that a caller was told: a
   * datastore without transactions keeps them once they are written, whatever becomes of the other changes.
   */
  | {
      readonly kind: 'update-block';
      readonly before: Stored<IpBlock>;
      readonly after: IpBlock;
      readonly told?: ReadonlySet<string>;
    }
  | { readonly kind: 'delete-block'; readonly before: Stored<IpBlock> }
  /** Last writer wins: an endpoint describes the newest attachment. */
  | { readonly kind: 'put-endpoint'; readonly endpoint: WorkloadEndpoint }
  | { readonly kind: 'delete-endpoint'; readonly before: Stored<WorkloadEndpoint> }
  /** The pool is still as it was read, and goes. */
  | { readonly kind: 'delete-pool'; readonly before: Stored<IpPool> };

/** A resource with the fields that people wrote, and none of those that reading fills in. */
export type WrittenResource = Pick<AnyResource, 'apiVersion' | 'kind' | 'metadata'> & { readonly spec?: unknown };

/** Who wrote which field of a resource. */
export interface FieldOwnership {
  /**
   * Makes the resource say what was written, and makes these fields the manager's: what it applied before and leaves out
   * now goes, and what others have written stays. Makes the resource when there is none. With `force` it takes fields
   * from others. What the manager wrote by creating or updating is its own, but is not taken away when it is left out.
   * @throws resource/field-conflict, resource/changed when metadata names another version, resource/invalid
   */
  apply(
    what: {
      readonly resource: WrittenResource;
      readonly manager: string;
      readonly force: boolean;
      readonly mode?: Mode;
    },
    signal: AbortSignal,
  ): Promise<AnyResource>;
}

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

/**
 * The datastore as netplug needs it. Every method honours the signal, and throws `store/unavailable` when the
 * datastore does not answer (a commit may then have happened or not), `store/refused` when it refuses the caller.
 */
export interface Store extends AsyncDisposable {
  /** Of a datastore that knows who wrote which field, as the API of the orchestrator does. */
  readonly fieldOwnership?: FieldOwnership;

  /** Of a datastore where endpoints are notes on pods, which the owner of the pod may change, and which may be missing. */
  readonly endpointsAreNotes?: true;

  /** The datastore itself, of one that answers from memory, which may lag a moment behind what others have written. */
  readonly beneath?: Store;

  /** Whether a version was written before another one of the same record; false where the datastore does not tell. */
  isOlder(version: string, than: string): boolean;

  readNodeView(node: NodeName, endpoint: EndpointId | undefined, signal: AbortSignal): Promise<NodeView>;

  /**
   * Follows everything that `readNodeView` says of the node, and its endpoints, until the signal ends it: then it
   * returns at once. A change of a block is told once, with the whole new block; of changes in quick succession some
   * may be left out, never the last. Throws `store/unavailable` or `store/refused` when the thread is lost, also within
   * 15 s of the datastore falling silent: begin anew. Does not keep the process alive by itself.
   */
  watchNode(node: NodeName, signal: AbortSignal): AsyncIterable<NodeChange>;

  /**
   * Follows what routes between nodes depend on, in the manner of `watchNode`. Who holds a slot is not part of it: an
   * address that its block's owner assigns or releases is not told.
   */
  watchCluster(signal: AbortSignal): AsyncIterable<ClusterChange>;

  /**
   * Follows the resources of one kind, in the manner of `watchNode`. What changes nothing but the version is not told.
   * When the datastore has forgotten where the watch was, what differs by then is told like any other change.
   */
  watchResources<K extends ResourceKind>(kind: K, signal: AbortSignal): AsyncIterable<ResourceChange<K>>;

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

  /**
   * Resources of a kind, of all namespaces, ordered by namespace and name, `metadata.resourceVersion` filled in;
   * unreadable ones become problems.
   */
  listResources<K extends ResourceKind>(
    kind: K,
    signal: AbortSignal,
  ): Promise<{ resources: readonly ResourceOf<K>[]; problems: readonly string[] }>;

  findResource<K extends ResourceKind>(which: ResourceId<K>, signal: AbortSignal): Promise<ResourceOf<K> | undefined>;

  /**
   * Fills in uid, creationTimestamp and, where it is left out, the namespace. It is the datastore that rehearses, here and below:
   * the API of the orchestrator has rules that netplug does not know, such as those of webhooks and other releases.
   * @throws resource/exists, resource/invalid
   */
  createResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource>;

  /**
   * Replaces what is there, keeping uid and creationTimestamp; when `metadata.resourceVersion` is given, only that version.
   * @throws resource/not-found, resource/changed
   */
  updateResource(resource: AnyResource, signal: AbortSignal, mode?: Mode): Promise<AnyResource>;

  /** When `resourceVersion` is given, only that version. @throws resource/not-found, resource/changed */
  deleteResource(
    which: ResourceId & { readonly resourceVersion?: string },
    signal: AbortSignal,
    mode?: Mode,
  ): Promise<void>;

  /**
   * Makes these facts those of the node: what is left out is removed, everything else of the node (labels, AS number,
   * what people wrote) stays. Makes the node where netplug keeps the nodes itself. Writes nothing when nothing differs.
   * @throws resource/not-found when the orchestrator, which keeps its own nodes, has none of that name
   */
  publishNode(node: NodeName, facts: NodeFacts, signal: AbortSignal): Promise<void>;

  /**
   * Tells the orchestrator whether the node's network works, as its condition NetworkUnavailable; without an
   * orchestrator there is nobody to tell. Writes nothing when the condition says so already.
   * @throws resource/not-found when the orchestrator has no node of that name
   */
  reportNetwork(node: NodeName, report: NetworkReport, signal: AbortSignal): Promise<void>;

  /** One cheap read that proves the datastore answers and accepts the caller. */
  ping(signal: AbortSignal): Promise<void>;
}
