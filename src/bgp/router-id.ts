import type { Address } from '../net/address.ts';

/** Returns the router id of BIRD: the node's IPv4 address, or without one a 32-bit hash of its name (FNV-1a). */
export function routerIdOf(nodeName: string, ipv4: Address | undefined): Address {
  if (ipv4?.family === 4) return ipv4;
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(nodeName)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  // BIRD treats 0 as unset.
  return { family: 4, value: BigInt(Math.max(1, hash)) };
}
