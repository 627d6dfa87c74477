import type { IpBlock } from '../model/ip-block.ts';
import type { AnyResource, ResourceKind } from '../model/kinds.ts';
import type { NodeName } from '../model/names.ts';
import type { ResourceId } from '../model/resource-id.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';

/** What a client follows. Queries, events and versions can be structured-cloned, so that a channel can carry them. */
export type Query =
  /** The resources of one kind, or the one of that name. */
  | { readonly kind: 'resources'; readonly of: ResourceKind; readonly name?: string }
  /** What routes need of each node, for the agent of `self`: a node of others may lack what its agent does not publish. */
  | { readonly kind: 'cluster-nodes'; readonly self: NodeName }
  /** Whole blocks that the node owns or holds an address of. */
  | { readonly kind: 'node-blocks'; readonly node: NodeName }
  /** What routes need of each block. An address that the owner of its block assigns or releases changes none of it. */
  | { readonly kind: 'block-routes' }
  | { readonly kind: 'endpoints'; readonly node: NodeName };

/** A block as far as routes to it go. */
export interface RoutedBlock {
  readonly cidr: Cidr;
  readonly node: NodeName | undefined;
  /** The addresses of the block that nodes other than its owner hold. */
  readonly borrowed: ReadonlyMap<NodeName, readonly Address[]>;
}

/** A record as it is now, as far as it can be read, and what is wrong with the rest; neither when it is deleted. */
export interface Seen<T> {
  readonly value?: T | undefined;
  readonly problem?: string | undefined;
}

interface RecordOf<T> extends Seen<T> {
  /** Unique among the records of the query. */
  readonly key: string;
  /** As good for a commit as one that was read. Empty where the record has none. */
  readonly version: string;
  /** The index of the query that the record belongs to. */
  readonly query: number;
}

export type ResourceRecord = RecordOf<AnyResource> & { readonly kind: 'resource'; readonly which: ResourceId };

/** One record that a query finds. */
export type FollowedRecord =
  | ResourceRecord
  | (RecordOf<IpBlock> & { readonly kind: 'block' })
  /** The key is the CIDR. */
  | (RecordOf<RoutedBlock> & { readonly kind: 'route' })
  | (RecordOf<WorkloadEndpoint> & { readonly kind: 'endpoint' });

export type FollowEvent =
  /** All records of all queries. The first event, unless `from` can be resumed; again when history was compacted. */
  | { readonly kind: 'snapshot'; readonly records: readonly FollowedRecord[]; readonly version: string }
  /** Records as they are now. A change may come twice; of changes in quick succession only the last one is certain. */
  | { readonly kind: 'changes'; readonly records: readonly FollowedRecord[]; readonly version: string }
  /** Nothing changed up to this version. */
  | { readonly kind: 'bookmark'; readonly version: string };

export interface FollowOptions {
  /** The version of an event of an earlier stream of the same queries, to resume after it. */
  readonly from?: string;
  readonly signal: AbortSignal;
}

/** Lists and watches: the one way to learn of changes in a datastore. */
export interface FollowStore {
  /**
   * Yields a snapshot of the queries and then their changes, until the signal aborts: then it returns at once. Throws
   * `store/unavailable` or `store/refused` when the watch is lost, also within 15 s after the datastore falls silent.
   * Does not keep the process alive.
   */
  follow(queries: readonly Query[], options: FollowOptions): AsyncIterable<FollowEvent>;
}

/** Yields events until the signal aborts; an error that the abort causes ends them without a throw. */
export async function* eventsUntilAborted<T>(events: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  if (signal.aborted) return;
  try {
    for await (const event of events) {
      yield event;
      if (signal.aborted) return;
    }
  } catch (cause) {
    if (!signal.aborted) throw cause;
  }
}
