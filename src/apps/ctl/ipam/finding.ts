import type { HostLink } from '../../../dataplane/kernel.ts';
import type { Stored } from '../../../datastore/allocation-store.ts';
import type { Allocation, IpBlock } from '../../../model/ip-block.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import type { Node } from '../../../model/node.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';

/** What `ipam check` compares, read at nearly one moment. */
export interface IpamState {
  readonly blocks: readonly IpBlock[];
  readonly endpoints: readonly Stored<WorkloadEndpoint>[];
  /** Where endpoints are notes that prove nothing: the pods that exist, `namespace/name` with the uid if it identifies them. */
  readonly pods?: ReadonlyMap<string, string | undefined> | undefined;
  readonly pools: readonly IpPool[];
  /** Undefined when a Node cannot be read: its tunnel addresses are then unknown. */
  readonly nodes: readonly Node[] | undefined;
  /** Records that could not be read. */
  readonly unreadable: readonly string[];
  /** What this machine shows; undefined when its kernel is left out. */
  readonly local: LocalState | undefined;
  readonly nowMs: number;
  readonly graceMs: number;
}

export interface LocalState {
  /** The names under which this machine may hold addresses. */
  readonly nodes: ReadonlySet<string>;
  readonly links: readonly HostLink[];
  /**
   * `<containerId>/<ifName>` of attachments that the node itself knows: what its agent has decided and may not have
   * published yet, and those whose addresses are in no block of netplug.
   */
  readonly attached: ReadonlySet<string>;
}

export type FindingKind =
  | 'unreadable-record'
  | 'block-fault'
  | 'block-outside-pools'
  | 'block-size'
  | 'overlapping-blocks'
  | 'address-held-twice'
  | 'leaked-address'
  | 'unconfirmed-address'
  | 'endpoint-missing'
  | 'endpoint-without-address'
  | 'stray-link';

/** How to repair a finding, if that is safe. */
export type Repair =
  | { readonly kind: 'release'; readonly allocation: Allocation; readonly endpoint: WorkloadEndpoint | undefined }
  | { readonly kind: 'delete-endpoint'; readonly before: Stored<WorkloadEndpoint> }
  | { readonly kind: 'remove-link'; readonly link: HostLink };

export interface IpamFinding {
  readonly kind: FindingKind;
  /** The address, block, endpoint or link it is about. */
  readonly subject: string;
  readonly message: string;
  readonly repair?: Repair;
}
