import type { IpBlock } from '../model/ip-block.ts';
import { addressAt, type Cidr, cidrContains, cidrsOverlap } from '../net/cidr.ts';

/** Yields the free ordinals of the block that may be assigned, in the order of its queue. */
export function* freeOrdinals(block: IpBlock, reserved: readonly Cidr[]): Generator<number> {
  const near = reserved.filter((cidr) => cidrsOverlap(cidr, block.cidr));
  for (const ordinal of block.queue) if (!isReserved(block, ordinal, near)) yield ordinal;
}

export function isReserved({ cidr }: IpBlock, ordinal: number, reserved: readonly Cidr[]): boolean {
  return reserved.some((range) => cidrContains(range, addressAt(cidr, ordinal)));
}
