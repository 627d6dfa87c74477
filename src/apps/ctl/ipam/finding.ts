import type { CheckInfo, Finding } from '../../../checks/check.ts';
import type { DelegatedNetwork } from '../../../cni/delegated-networks.ts';
import type { LeakedReservation } from '../../../cni/leaked-reservations.ts';
import type { HostLink } from '../../../dataplane/kernel.ts';
import type { UnconnectedPod } from '../../../install/host/unconnected-pods.ts';
import type { Stored } from '../../../datastore/allocation-store.ts';
import type { Allocation, IpBlock } from '../../../model/ip-block.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import type { Node } from '../../../model/node.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';

/** State that `ipam check` compares, read at nearly one moment. */
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
  /** State of this machine; undefined when its kernel is left out. */
  readonly local: LocalState | undefined;
  readonly nowMs: number;
  readonly graceMs: number;
}

export interface LocalState {
  /** The names under which this machine may hold addresses. */
  readonly nodes: ReadonlySet<string>;
  readonly links: readonly HostLink[];
  /** Addresses that lead to links, or that their ADD gave them, in canonical text. */
  readonly used: ReadonlySet<string>;
  /** What the runtime has recorded of pods whose namespaces exist and that have no link. */
  readonly unconnected: readonly UnconnectedPod[];
  /** The pods that the API has on this machine, with the addresses that their kubelet reports; none where it cannot be asked. */
  readonly running: readonly WorkloadEndpoint[];
  /**
   * `<containerId>/<ifName>` of attachments that the node itself knows: what its agent has decided and may not have
   * published yet, and those whose addresses are in no block of netplug.
   */
  readonly attached: ReadonlySet<string>;
  readonly delegated: DelegatedState;
}

/** The networks of this machine whose addresses another plugin manages. */
export interface DelegatedState {
  readonly networks: readonly DelegatedNetwork[];
  /** What their managers hold for attachments that have ended. */
  readonly leaked: readonly LeakedReservation[];
  /** `<containerId>/<ifName>` of the attachments that host-local has a file of. */
  readonly reserved: ReadonlySet<string>;
}

/** Repair of a finding, if it is safe. */
export type Repair =
  | { readonly kind: 'release'; readonly allocation: Allocation; readonly endpoint: WorkloadEndpoint | undefined }
  | { readonly kind: 'delete-endpoint'; readonly before: Stored<WorkloadEndpoint> }
  | { readonly kind: 'remove-link'; readonly link: HostLink }
  | { readonly kind: 'end-attachment'; readonly network: DelegatedNetwork; readonly leaked: LeakedReservation };

/** Conditions that records and kernel must meet, by the part of the id behind `ipam/`. */
const CHECKS = {
  'unreadable-record': { severity: 'warning', expected: 'records that netplug can decode' },
  'leaked-address': { severity: 'warning', expected: 'a pod for every assigned address' },
  'unconfirmed-address': { severity: 'note', expected: 'evidence that every assigned address is in use' },
  'address-held-twice': { severity: 'error', expected: 'one holder for an address' },
  'leaked-reservation': { severity: 'warning', expected: 'a pod for every address that another plugin holds' },
  'endpoint-without-interface': { severity: 'warning', expected: 'an interface for every endpoint of this node' },
  'endpoint-missing': { severity: 'warning', expected: 'an endpoint for every interface with an address' },
  'endpoint-without-address': { severity: 'warning', expected: 'endpoints whose addresses are assigned in a block' },
  'pod-without-interface': { severity: 'error', expected: 'an interface for every running pod that netplug connects' },
  'stray-link': { severity: 'warning', expected: 'host interfaces that belong to a pod' },
  'block-fault': { severity: 'error', expected: 'consistent blocks' },
  'block-outside-pools': { severity: 'warning', expected: 'blocks inside pools' },
  'block-size': { severity: 'warning', expected: 'blocks of the blockSize of their pool' },
  'overlapping-blocks': { severity: 'error', expected: 'blocks that do not overlap' },
} as const satisfies Readonly<Record<string, Omit<CheckInfo, 'id'>>>;

type IpamCheck = keyof typeof CHECKS;

export const IPAM_CHECKS: readonly CheckInfo[] = Object.entries(CHECKS).map(([name, about]) => ({
  id: `ipam/${name}`,
  ...about,
}));

export interface IpamFinding extends Finding {
  /** The address, block, endpoint or link it is about. */
  readonly subject: string;
  readonly repair?: Repair;
}

export function ipamFinding(
  name: IpamCheck,
  {
    repair,
    remedy,
    ...rest
  }: {
    readonly subject: string;
    readonly found: string;
    readonly repair?: Repair | undefined;
    /** What to do where neither a repair nor the records help. */
    readonly remedy?: string;
  },
): IpamFinding {
  if (remedy !== undefined) return { id: `ipam/${name}`, ...CHECKS[name], ...rest, remedy };
  const all = name === 'unconfirmed-address' ? ' --unconfirmed' : '';
  const help =
    repair === undefined
      ? { remedy: 'Find out what changed the records, and correct them', command: 'netplugctl ipam check' }
      : { remedy: 'Release leaked addresses', command: `netplugctl ipam check${all} --fix`, repair };
  return { id: `ipam/${name}`, ...CHECKS[name], ...rest, ...help };
}

/** Returns the finding without its repair, as it is shown. */
export function shownFinding({ id, severity, expected, found, remedy, command }: Finding): Finding {
  return { id, severity, expected, found, remedy, ...(command === undefined ? {} : { command }) };
}

/** Reports whether a finding is of a check. */
export function isOf({ id }: CheckInfo, name: IpamCheck): boolean {
  return id === `ipam/${name}`;
}
