import * as v from 'valibot';
import { type Cidr, parseCidr } from '../net/cidr.ts';
import type { Resource } from './resource.ts';
import { CidrOrAddressText } from './spec-types.ts';

export const IP_RESERVATION_FIELDS = {
  reservedCIDRs: v.pipe(
    v.optional(v.pipe(v.array(CidrOrAddressText, 'an array of CIDRs'), v.readonly()), []),
    v.description('CIDRs or addresses that automatic assignment skips; explicit requests do not.'),
  ),
};

/** Canonical CIDR texts. */
export type IpReservationSpec = Readonly<v.InferOutput<v.ObjectSchema<typeof IP_RESERVATION_FIELDS, undefined>>>;
export type IpReservation = Resource<'IPReservation', IpReservationSpec>;

/** What automatic assignment skips. */
export function reservedCidrs(reservations: readonly IpReservation[]): Cidr[] {
  return reservations.flatMap(({ spec }) => spec.reservedCIDRs.map(parseCidr));
}
