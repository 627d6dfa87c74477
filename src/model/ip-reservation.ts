import * as v from 'valibot';
import { field, listOf, type SpecOf } from './field.ts';
import { type Cidr, parseCidr } from '../net/cidr.ts';
import { type KindDeclaration, nameColumn, wide } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { CidrOrAddressText } from './spec-types.ts';

const IP_RESERVATION_FIELDS = {
  reservedCIDRs: field(
    v.optional(listOf(CidrOrAddressText, 'an array of CIDRs'), []),
    'CIDRs or addresses that automatic assignment skips; explicit requests do not.',
  ),
};

/** A spec with canonical CIDRs. */
export type IpReservationSpec = SpecOf<typeof IP_RESERVATION_FIELDS>;
export type IpReservation = Resource<'IPReservation', IpReservationSpec>;

export const IP_RESERVATION: KindDeclaration<IpReservation> = {
  plural: 'ipreservations',
  shortNames: ['reservation', 'reservations'],
  scope: 'cluster',
  about: 'Addresses that are assigned only on explicit request.',
  enforced: true,
  writtenBy: 'user',
  columns: [nameColumn(), wide('CIDRS', 'spec.reservedCIDRs', ({ spec }) => spec.reservedCIDRs.join(','))],
  fields: IP_RESERVATION_FIELDS,
  example: { metadata: { name: 'printers' }, spec: { reservedCIDRs: ['10.244.0.0/28', '10.244.7.9'] } },
};

/** Returns the CIDRs that automatic assignment skips. */
export function reservedCidrs(reservations: readonly IpReservation[]): Cidr[] {
  return reservations.flatMap(({ spec }) => spec.reservedCIDRs.map(parseCidr));
}
