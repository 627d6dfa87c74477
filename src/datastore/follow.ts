import type { IpBlock } from '../model/ip-block.ts';
import type { AnyResource, ResourceKind } from '../model/kinds.ts';
import type { NodeName } from '../model/names.ts';
import type { ResourceId } from '../model/resource-id.ts';
import type { ServiceEndpoints } from '../model/service-endpoints.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';
import type { Converted } from '../model/from-kubernetes/kubernetes-object.ts';

/** Selects the records to follow. Queries, events and versions can be structured-cloned, to be sent between processes. */
export type Query =
  /** The resources of one kind, or the one of that name. */
  | { readonly kind: 'resources'; readonly of: ResourceKind; readonly name?: string }
  /** The nodes other than `self`, or all, with only the fields that routes need. */
  | { readonly kind: 'other-nodes'; readonly self?: NodeName }
  /** Whole blocks that the node owns or holds an address of. */
  | { readonly kind: 'node-blocks'; readonly node: NodeName }
  /** Owner and borrowed addresses of each block. An assignment by the owner changes at most the version of the record. */
  | { readonly kind: 'block-routes' }
  /** The workload endpoints of the node, or of all nodes, as the plugin and the agent of each node have recorded them. */
  | { readonly kind: 'endpoints'; readonly node?: NodeName }
  /**
   * The pods of the orchestrator, as endpoints: labels, ports and service accounts are current, addresses are those that
   * kubelets report. None on a datastore that is not the orchestrator's.
   */
  | { readonly kind: 'pods' }
  /** Resources derived from Kubernetes objects. */
  | { readonly kind: 'derived-resources'; readonly from: DerivedFrom }
  /** The endpoints of the orchestrator's services. */
  | { readonly kind: 'service-endpoints' };

/** The objects of the orchestrator from which the API datastore derives resources. Other datastores store only the derived resources. */
export const DERIVED_FROM = ['NetworkPolicy', 'Namespace', 'ServiceAccount'] as const;
export type DerivedFrom = (typeof DERIVED_FROM)[number];

/** The fields of a block that routes need. */
export interface RoutedBlock {
  readonly cidr: Cidr;
  readonly node: NodeName | undefined;
  /** The addresses of the block that nodes other than its owner hold. */
  readonly borrowed: ReadonlyMap<NodeName, readonly Address[]>;
}

/** A decoded record: its value, and why the rest could not be decoded. Both are unset for a deleted record. */
export interface Decoded<T> {
  readonly value?: T | undefined;
  readonly problem?: string | undefined;
}

/** Returns what a record was converted to, with its problems as one text. */
export function decodedFrom<T>({ value, problems }: Converted<T>): Decoded<T> {
  return {
    ...(value === undefined ? {} : { value }),
    ...(problems.length === 0 ? {} : { problem: problems.join('; ') }),
  };
}

interface RecordOf<T> extends Decoded<T> {
  /** Unique among the records of the query. */
  readonly key: string;
  /** The version for a commit. Empty where the record has none. */
  readonly version: string;
  /** The index of the query that the record belongs to. */
  readonly query: number;
  /** The object of the orchestrator in which the record is, of stores that are asked for it. */
  readonly stored?: object | undefined;
}

export type ResourceRecord = RecordOf<AnyResource> & { readonly kind: 'resource'; readonly which: ResourceId };

/** One record that a query finds. */
export type FollowedRecord =
  | ResourceRecord
  | (RecordOf<IpBlock> & { readonly kind: 'block' })
  /** The key is the CIDR. */
  | (RecordOf<RoutedBlock> & { readonly kind: 'route' })
  | (RecordOf<WorkloadEndpoint> & { readonly kind: 'endpoint' })
  /** Several records may belong to one service. */
  | (RecordOf<ServiceEndpoints> & { readonly kind: 'service' });

/** Returns what identifies the record among those of all queries of a stream. */
export function followedKey({ query, key }: FollowedRecord): string {
  return `${String(query)} ${key}`;
}

/** Returns the record as it is once deleted. */
export function deletedRecord({
  value: _value,
  problem: _problem,
  stored: _stored,
  ...record
}: FollowedRecord): FollowedRecord {
  return record;
}

export type FollowEvent =
  /** All records of all queries. The first event, unless `from` can be resumed; again when history was compacted. */
  | { readonly kind: 'snapshot'; readonly records: readonly FollowedRecord[]; readonly version: string }
  /** The new state of records. A change may be repeated, and quick successive changes may be reported as one. */
  | { readonly kind: 'changes'; readonly records: readonly FollowedRecord[]; readonly version: string }
  /** Nothing changed up to this version. */
  | { readonly kind: 'bookmark'; readonly version: string };

export interface FollowOptions {
  /**
   * The version of an event of an earlier stream of the same queries, to resume after it. A datastore that was restored
   * from a backup meanwhile, and has reached that version again, goes unnoticed: a cache that must survive a restore begins
   * with a snapshot.
   */
  readonly from?: string;
  /** Requires every record of the snapshot to be as new as the call. Otherwise it may come from a watch that has fallen behind. */
  readonly isFresh?: boolean;
  readonly signal: AbortSignal;
}

/** Lists and watches the records of a datastore. */
export interface FollowStore {
  /**
   * Yields a snapshot of the queries and then their changes, and returns as soon as the signal aborts. Throws
   * `store/unavailable` or `store/refused` when the watch fails, at the latest 15 s after the datastore stops responding.
   * Does not keep the process alive.
   */
  follow(queries: readonly Query[], options: FollowOptions): AsyncIterable<FollowEvent>;
}

/** Yields events until the signal aborts. Ignores the error that the abort causes. */
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
