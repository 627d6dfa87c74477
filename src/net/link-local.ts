import { type Address, addressFromBytes } from './address.ts';
import { type Mac, macBytes } from './mac.ts';

/** Returns the link-local IPv6 address of a MAC address (RFC 4291, appendix A: modified EUI-64). */
export function linkLocalOf(mac: Mac): Address {
  const [first = 0, ...rest] = macBytes(mac);
  const high = [first ^ 0x02, ...rest.slice(0, 2), 0xff];
  return addressFromBytes(Uint8Array.from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, ...high, 0xfe, ...rest.slice(2)]));
}
