import type * as v from 'valibot';
import type { Problem } from '../base/problem.ts';
import { tryReadCidr } from '../net/cidr.ts';
import { BGP_CONFIGURATION_FIELDS } from './bgp-configuration.ts';
import { BGP_PEER_FIELDS, checkBgpPeer } from './bgp-peer.ts';
import { checkIpPool, defaultBlockSize, IP_POOL_FIELDS } from './ip-pool.ts';
import { IP_RESERVATION_FIELDS } from './ip-reservation.ts';
import { IPAM_CONFIGURATION_FIELDS, IPAM_CONFIGURATION_NAME } from './ipam-configuration.ts';
import type { ResourceKind } from './kinds.ts';
import { NODE_FIELDS } from './node.ts';
import { readEntries } from './read-schema.ts';

type Raw = Readonly<Record<string, unknown>>;

/** How to read the spec of one kind. */
export interface SpecReader {
  readonly kind: ResourceKind;
  readonly fields: readonly string[];
  /** The name every resource of the kind must have, when there is only one. */
  readonly onlyName?: string;
  /** The fields we know with their defaults, or undefined when a problem was added. */
  read(raw: Raw, problems: Problem[]): Raw | undefined;
  /** Breaches of the rules that join fields. */
  check(raw: Raw): Problem[];
}

const PLACE = { path: 'spec', code: 'resource/invalid' } as const;

const READERS: Readonly<Record<ResourceKind, SpecReader>> = {
  IPPool: {
    ...plainReader('IPPool', IP_POOL_FIELDS),
    read: (raw, problems) => {
      const { complete: spec } = readEntries(IP_POOL_FIELDS, raw, { ...PLACE, problems });
      if (spec === undefined) return undefined;
      // The field itself has seen to it that the text is a CIDR.
      const family = tryReadCidr(spec.cidr)?.cidr.base.family ?? 4;
      return { ...spec, blockSize: spec.blockSize ?? defaultBlockSize(family) };
    },
    check: (raw) => checkIpPool(readEntries(IP_POOL_FIELDS, raw, { ...PLACE, problems: [] }).values),
  },
  IPReservation: plainReader('IPReservation', IP_RESERVATION_FIELDS),
  IPAMConfiguration: {
    ...plainReader('IPAMConfiguration', IPAM_CONFIGURATION_FIELDS),
    onlyName: IPAM_CONFIGURATION_NAME,
  },
  Node: plainReader('Node', NODE_FIELDS),
  BGPConfiguration: plainReader('BGPConfiguration', BGP_CONFIGURATION_FIELDS),
  BGPPeer: {
    ...plainReader('BGPPeer', BGP_PEER_FIELDS),
    check: (raw) => checkBgpPeer(readEntries(BGP_PEER_FIELDS, raw, { ...PLACE, problems: [] }).values),
  },
};

export const KIND_NAMES: readonly string[] = Object.keys(READERS);

export function findSpecReader(kind: unknown): SpecReader | undefined {
  return Object.values(READERS).find((reader) => reader.kind === kind);
}

function plainReader(kind: ResourceKind, fields: v.ObjectEntries): SpecReader {
  return {
    kind,
    fields: Object.keys(fields),
    read: (raw, problems) => readEntries(fields, raw, { ...PLACE, problems }).complete,
    check: () => [],
  };
}
