import type { IpBlock } from '../model/ip-block.ts';
import type { ResourceKind, ResourceOf } from '../model/kinds.ts';
import type { NodeName } from '../model/names.ts';
import type { ResourceId } from '../model/resource-id.ts';
import type { EndpointId, WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';
import type { NodeSettings, NodeView, Stored } from './allocation-store.ts';

/** One thing a watcher of a node is told. Versions are as good for a commit as those that were read. */
export type NodeChange =
  /** Everything there is: what was known before is forgotten. Always the first. */
  | {
      readonly kind: 'all';
      readonly view: Omit<NodeView, 'endpoint' | 'rollbacks' | 'latest'>;
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

/** Changes of the datastore as they happen. */
export interface WatchStore {
  /**
   * Follows everything that `readNodeView` says of the node, and its endpoints, until the signal ends it: then it
   * returns at once. A change of a block is told once, with the whole new block; of changes in quick succession some
   * may be left out, never the last. Throws `store/unavailable` or `store/refused` when the thread is lost, also within
   * 15 s of the datastore falling silent: begin anew. Does not keep the process alive by itself.
   */
  watchNode(node: NodeName, signal: AbortSignal): AsyncIterable<NodeChange>;

  /**
   * Follows what routes between nodes depend on, in the manner of `watchNode`, for the agent of `node`. Who holds a slot is
   * not part of it: an address that its block's owner assigns or releases is not told. Where the orchestrator keeps the
   * nodes, `node` itself is told as it is there, and every other node as its agent published it last.
   */
  watchCluster(node: NodeName, signal: AbortSignal): AsyncIterable<ClusterChange>;

  /**
   * Follows the resources of one kind, in the manner of `watchNode`. What changes nothing but the version is not told.
   * When the datastore has forgotten where the watch was, what differs by then is told like any other change.
   */
  watchResources<K extends ResourceKind>(kind: K, signal: AbortSignal): AsyncIterable<ResourceChange<K>>;
}
