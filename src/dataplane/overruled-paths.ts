import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';

/** A route of netplug, and an address to which packets take it. */
export interface WantedPath {
  readonly address: Address;
  readonly destination: Cidr;
  readonly device: string;
  /** Undefined for a pod of the node. */
  readonly gateway: Address | undefined;
}

/** Packets are dropped because those of the other direction would leave by another device. */
export const REVERSE_PATH = 'reverse path';

/** What the host does with packets in place of a wanted path. */
export interface Overruling {
  /** Preference of the routing rule that chose the table; undefined in the table that netplug uses. */
  readonly rule: number | undefined;
  /** Undefined when the rule itself refuses packets. */
  readonly table: number | undefined;
  /** `unicast`, or how packets are refused: `blackhole`, `unreachable`, `prohibit`, `REVERSE_PATH`. */
  readonly type: string;
  /** Undefined when no route of the table is known. */
  readonly destination: Cidr | undefined;
  readonly device: string | undefined;
  readonly gateway: Address | undefined;
  readonly metric: number | undefined;
}

/** A route of netplug that packets do not take. */
export interface OverruledPath {
  readonly path: WantedPath;
  readonly by: Overruling;
}
