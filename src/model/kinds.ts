import type { IpPool } from './ip-pool.ts';
import type { IpReservation } from './ip-reservation.ts';
import type { IpamConfiguration } from './ipam-configuration.ts';
import type { Node } from './node.ts';

/** Kinds people write; endpoints and blocks are written by netplug alone and have their own methods. */
export type AnyResource = IpPool | IpReservation | IpamConfiguration | Node;
export type ResourceKind = AnyResource['kind'];
export type ResourceOf<K extends ResourceKind> = Extract<AnyResource, { kind: K }>;
