import type { IpPool } from './ip-pool.ts';
import type { IpReservation } from './ip-reservation.ts';
import type { IpamConfiguration } from './ipam-configuration.ts';
import type { Node } from './node.ts';

/** Kinds people write; endpoints and blocks are written by netplug alone and have their own methods. */
export type AnyResource = IpPool | IpReservation | IpamConfiguration | Node;
export type ResourceKind = AnyResource['kind'];
export type ResourceOf<K extends ResourceKind> = Extract<AnyResource, { kind: K }>;

/** One column of a table of resources. */
export interface Column<R> {
  readonly title: string;
  /** Whether only the wide table has it. */
  readonly isWide: boolean;
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
      column('NAME', nameOf),
      column('CIDR', ({ spec }) => spec.cidr),
      column('SELECTOR', ({ spec }) => spec.nodeSelector),
      wide('NAT', ({ spec }) => String(spec.natOutgoing)),
      wide('IPIPMODE', ({ spec }) => spec.ipipMode),
      wide('VXLANMODE', ({ spec }) => spec.vxlanMode),
      wide('BLOCKSIZE', ({ spec }) => String(spec.blockSize)),
      wide('DISABLED', ({ spec }) => String(spec.disabled)),
      wide('DISABLEBGPEXPORT', ({ spec }) => String(spec.disableBGPExport)),
      wide('USES', ({ spec }) => spec.allowedUses.join(',')),
    ],
  },
  IPReservation: {
    plural: 'ipreservations',
    shortNames: ['reservation', 'reservations'],
    scope: 'cluster',
    columns: [column('NAME', nameOf), wide('CIDRS', ({ spec }) => spec.reservedCIDRs.join(','))],
  },
  IPAMConfiguration: {
    plural: 'ipamconfigurations',
    shortNames: ['ipamconfig', 'ipamconfigs'],
    scope: 'cluster',
    columns: [
      column('NAME', nameOf),
      column('STRICTAFFINITY', ({ spec }) => String(spec.strictAffinity)),
      column('MAXBLOCKSPERNODE', ({ spec }) => String(spec.maxBlocksPerNode)),
    ],
  },
  Node: {
    plural: 'nodes',
    shortNames: ['no', 'nos'],
    scope: 'cluster',
    columns: [
      column('NAME', nameOf),
      wide('ADDRESSES', ({ spec }) => (spec.addresses ?? []).map(({ address }) => address).join(',')),
      wide('LABELS', ({ metadata }) =>
        Object.entries(metadata.labels ?? {})
          .map(([key, value]) => `${key}=${value}`)
          .join(','),
      ),
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

function column<R>(title: string, show: (resource: R) => string): Column<R> {
  return { title, isWide: false, show };
}

function wide<R>(title: string, show: (resource: R) => string): Column<R> {
  return { title, isWide: true, show };
}
