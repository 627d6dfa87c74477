import type { Resource } from './resource.ts';

export interface IpReservationSpec {
  /** Canonical CIDR texts; automatic assignment skips them, explicit requests do not. */
  readonly reservedCIDRs: readonly string[];
}
export type IpReservation = Resource<'IPReservation', IpReservationSpec>;
