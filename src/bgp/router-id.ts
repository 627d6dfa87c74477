import type { Address } from '../net/address.ts';

/**
 * What BIRD calls itself: the node's IPv4 address, or for want of one 32 bits of a hash over its name (FNV-1a), which
 * stay the same for as long as the name does.
 */
export function routerIdOf(nodeName: string, ipv4: Address | undefined): Address {
  if (ipv4?.family === 4) return ipv4;
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(nodeName)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  // BIRD takes 0 for none.
  return { family: 4, value: BigInt(Math.max(1, hash)) };
}
