import { type CoolDown, coolsUntil } from '../model/cool-down.ts';
import type { IpBlock } from '../model/ip-block.ts';
import { addressAt, type Cidr, cidrContains, cidrsOverlap } from '../net/cidr.ts';

/** Yields the free ordinals of the block that may be assigned, in the order of its queue. */
export function* freeOrdinals(block: IpBlock, reserved: readonly Cidr[]): Generator<number> {
  const near = reserved.filter((cidr) => cidrsOverlap(cidr, block.cidr));
  for (const ordinal of block.queue) if (!isReserved(block, ordinal, near)) yield ordinal;
}

/** `holder` is the one for whom the addresses that it held last do not cool down. */
export interface Cooling extends CoolDown {
  readonly holder?: string;
}

/** Yields those of the free ordinals that do not cool down, in the order of the queue. */
export function* readyOrdinals(block: IpBlock, reserved: readonly Cidr[], cooling: Cooling): Generator<number> {
  for (const ordinal of freeOrdinals(block, reserved)) {
    const isCooling = coolsUntil(block, ordinal, cooling) !== undefined;
    if (!isCooling || block.released.get(ordinal)?.holder === cooling.holder) yield ordinal;
  }
}

export function isReserved({ cidr }: IpBlock, ordinal: number, reserved: readonly Cidr[]): boolean {
  return reserved.some((range) => cidrContains(range, addressAt(cidr, ordinal)));
}
