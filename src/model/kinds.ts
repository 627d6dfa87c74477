import type { BgpConfiguration } from './bgp-configuration.ts';
import type { BgpPeer } from './bgp-peer.ts';
import type { IpPool } from './ip-pool.ts';
import type { IpReservation } from './ip-reservation.ts';
import type { IpamConfiguration } from './ipam-configuration.ts';
import type { Node } from './node.ts';

/** Kinds people write; endpoints and blocks are written by netplug alone and have their own methods. */
export type AnyResource = IpPool | IpReservation | IpamConfiguration | Node | BgpConfiguration | BgpPeer;
export type ResourceKind = AnyResource['kind'];
export type ResourceOf<K extends ResourceKind> = Extract<AnyResource, { kind: K }>;

/** One column of a table of resources. */
export interface Column<R> {
  readonly title: string;
  /** Whether only the wide table has it. */
  readonly isWide: boolean;
  /** Where in the resource it stands; undefined for what the orchestrator's own tools show anyway. */
  readonly path: string | undefined;
  readonly show: (resource: R) => string;
}

export interface KindInfo<R> {
  /** In lower case, as are the short names: on a command line the letter case of a kind does not matter. */
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly scope: 'cluster' | 'namespace';
  readonly columns: readonly Column<R>[];
}

export const KINDS: { readonly [K in ResourceKind]: KindInfo<ResourceOf<K>> } = {
  IPPool: {
    plural: 'ippools',
    shortNames: ['ipp', 'ipps', 'pool', 'pools'],
    scope: 'cluster',
    columns: [
      column('NAME', undefined, nameOf),
      column('CIDR', 'spec.cidr', ({ spec }) => spec.cidr),
      column('SELECTOR', 'spec.nodeSelector', ({ spec }) => spec.nodeSelector),
      wide('NAT', 'spec.natOutgoing', ({ spec }) => String(spec.natOutgoing)),
      wide('IPIPMODE', 'spec.ipipMode', ({ spec }) => spec.ipipMode),
      wide('VXLANMODE', 'spec.vxlanMode', ({ spec }) => spec.vxlanMode),
      wide('BLOCKSIZE', 'spec.blockSize', ({ spec }) => String(spec.blockSize)),
      wide('DISABLED', 'spec.disabled', ({ spec }) => String(spec.disabled)),
      wide('DISABLEBGPEXPORT', 'spec.disableBGPExport', ({ spec }) => String(spec.disableBGPExport)),
      wide('USES', 'spec.allowedUses', ({ spec }) => spec.allowedUses.join(',')),
    ],
  },
  IPReservation: {
    plural: 'ipreservations',
    shortNames: ['reservation', 'reservations'],
    scope: 'cluster',
    columns: [
      column('NAME', undefined, nameOf),
      wide('CIDRS', 'spec.reservedCIDRs', ({ spec }) => spec.reservedCIDRs.join(',')),
    ],
  },
  IPAMConfiguration: {
    plural: 'ipamconfigurations',
    shortNames: ['ipamconfig', 'ipamconfigs'],
    scope: 'cluster',
    columns: [
      column('NAME', undefined, nameOf),
      column('STRICTAFFINITY', 'spec.strictAffinity', ({ spec }) => String(spec.strictAffinity)),
      column('MAXBLOCKSPERNODE', 'spec.maxBlocksPerNode', ({ spec }) => String(spec.maxBlocksPerNode)),
    ],
  },
  Node: {
    plural: 'nodes',
    shortNames: ['no', 'nos'],
    scope: 'cluster',
    columns: [
      column('NAME', undefined, nameOf),
      wide('ADDRESSES', 'spec.addresses', ({ spec }) => (spec.addresses ?? []).map(({ address }) => address).join(',')),
      wide('LABELS', 'metadata.labels', ({ metadata }) =>
        Object.entries(metadata.labels ?? {})
          .map(([key, value]) => `${key}=${value}`)
          .join(','),
      ),
      wide('ASN', 'spec.bgp.asNumber', ({ spec }) => String(spec.bgp?.asNumber ?? '')),
      wide('IPV4', 'spec.bgp.ipv4Address', ({ spec }) => spec.bgp?.ipv4Address ?? ''),
      wide('IPV6', 'spec.bgp.ipv6Address', ({ spec }) => spec.bgp?.ipv6Address ?? ''),
    ],
  },
  BGPConfiguration: {
    plural: 'bgpconfigurations',
    shortNames: ['bgpconfig', 'bgpconfigs'],
    scope: 'cluster',
    columns: [
      column('NAME', undefined, nameOf),
      column('LOGSEVERITY', 'spec.logSeverityScreen', ({ spec }) => spec.logSeverityScreen ?? ''),
      column('MESHENABLED', 'spec.nodeToNodeMeshEnabled', ({ spec }) => String(spec.nodeToNodeMeshEnabled ?? '')),
      column('ASNUMBER', 'spec.asNumber', ({ spec }) => String(spec.asNumber ?? '')),
    ],
  },
  BGPPeer: {
    plural: 'bgppeers',
    shortNames: ['bgpp', 'bgpps', 'bp'],
    scope: 'cluster',
    columns: [
      column('NAME', undefined, nameOf),
      column('PEERIP', 'spec.peerIP', ({ spec }) => spec.peerIP ?? ''),
      column('NODE', 'spec.node', ({ spec }) => spec.node ?? spec.nodeSelector ?? '(all)'),
      column('ASN', 'spec.asNumber', ({ spec }) => String(spec.asNumber ?? '')),
      wide('PEERSELECTOR', 'spec.peerSelector', ({ spec }) => spec.peerSelector ?? ''),
    ],
  },
};

/** The kind somebody means on a command line: singular, plural or short, in any letter case. */
export function findKind(word: string): ResourceKind | undefined {
  const lower = word.toLowerCase();
  const entries = Object.entries(KINDS).find(
    ([kind, { plural, shortNames }]) => kind.toLowerCase() === lower || plural === lower || shortNames.includes(lower),
  );
  // The keys of the table are the kinds; the compiler widens them to strings.
  return entries?.[0] as ResourceKind | undefined;
}

function nameOf({ metadata }: AnyResource): string {
  return metadata.name;
}

function column<R>(title: string, path: string | undefined, show: (resource: R) => string): Column<R> {
  return { title, isWide: false, path, show };
}

function wide<R>(title: string, path: string, show: (resource: R) => string): Column<R> {
  return { title, isWide: true, path, show };
}
