import { type Cidr, cidrsOverlap, formatCidr } from '../net/cidr.ts';

/** A range that something other than pods uses: a network of a node, an address of a server, a range of Services or a pool. */
export interface UsedRange {
  readonly cidr: Cidr;
  /** Names the user of the range in a sentence, such as `the network of interface "eth0"`. */
  readonly what: string;
}

/** Returns the first of the ranges that has an address in common with the pool or block; undefined when there is none. */
export function findOverlap(cidr: Cidr, used: readonly UsedRange[]): UsedRange | undefined {
  return used.find((each) => cidrsOverlap(each.cidr, cidr));
}

/** Describes the range in an error, such as `192.0.2.0/24, the network of interface "eth0"`. */
export function describeRange({ cidr, what }: UsedRange): string {
  return `${formatCidr(cidr)}, ${what}`;
}
