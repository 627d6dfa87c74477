/** A 48-bit hardware address in lower-case colon form. */
export type Mac = string;

/** The MAC of the host side of every pod link. It is fixed, so that a pod's neighbour entry never becomes stale. */
export const HOST_MAC: Mac = 'ee:ee:ee:ee:ee:ee';

/** Parses `aa:bb:cc:dd:ee:ff` in any letter case; undefined for any other form and for multicast addresses. */
export function tryParseMac(text: string): Mac | undefined {
  if (!/^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$/.test(text)) return undefined;
  const mac = text.toLowerCase();
  return (Number.parseInt(mac.slice(0, 2), 16) & 1) === 1 ? undefined : mac;
}

/** Returns a locally administered unicast address from five bytes of a hash. */
export function macFromHash(hash: Uint8Array): Mac {
  return ['0a', ...[...hash.subarray(0, 5)].map((byte) => byte.toString(16).padStart(2, '0'))].join(':');
}

export function macBytes(mac: Mac): Uint8Array {
  return Uint8Array.from(mac.split(':'), (byte) => Number.parseInt(byte, 16));
}

export function macFromBytes(bytes: Uint8Array): Mac {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(':');
}
