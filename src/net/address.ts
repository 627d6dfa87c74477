import { NetplugError } from '../base/errors.ts';

export type Family = 4 | 6;

/** One IP address as a number, with its family. */
export interface Address {
  readonly family: Family;
  readonly value: bigint;
}

export const FAMILIES: readonly Family[] = [4, 6];

/** Length of an address of the family in bits. */
export function bitsOf(family: Family): 32 | 128 {
  return family === 4 ? 32 : 128;
}

/** Parses strict dotted-quad IPv4, or RFC 4291 IPv6 without zone; undefined for anything else. */
export function tryParseAddress(text: string): Address | undefined {
  const value = text.includes(':') ? parseV6(text) : parseV4(text);
  if (value === undefined) return undefined;
  return { family: text.includes(':') ? 6 : 4, value };
}

/** Parses an address. @throws ipam/request-invalid for a text that `tryParseAddress` refuses */
export function parseAddress(text: string): Address {
  const address = tryParseAddress(text);
  if (address !== undefined) return address;
  throw new NetplugError('ipam/request-invalid', `Cannot read "${text}" as an IP address`, {
    hint: 'Write IPv4 as four decimal numbers without leading zeros, IPv6 without zone',
  });
}

/** Returns the canonical text: dotted quad, or RFC 5952. */
export function formatAddress({ family, value }: Address): string {
  return family === 4 ? formatV4(value) : formatV6(value);
}

/** Returns a text that is unique for the address, for use as a map key: faster than what people read. */
export function addressKey({ family, value }: Address): string {
  return family === 4 ? value.toString(36) : `v6 ${value.toString(36)}`;
}

export function sameAddress(a: Address, b: Address): boolean {
  return a.family === b.family && a.value === b.value;
}

/** Returns 4 or 16 bytes in network byte order. */
export function addressBytes({ family, value }: Address): Uint8Array {
  const length = bitsOf(family) / 8;
  const bytes = new Uint8Array(length);
  let rest = value;
  for (let index = length - 1; index >= 0; index -= 1) {
    bytes[index] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return bytes;
}

/** Returns the address in 4 or 16 bytes in network byte order. */
export function addressFromBytes(bytes: Uint8Array): Address {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  return { family: bytes.length === 4 ? 4 : 6, value };
}

function parseV4(text: string): bigint | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (match === null) return undefined;
  let value = 0n;
  for (const octet of match.slice(1)) {
    if (octet.length > 1 && octet.startsWith('0')) return undefined;
    const byte = BigInt(octet);
    if (byte > 255n) return undefined;
    value = (value << 8n) | byte;
  }
  return value;
}

function parseV6(text: string): bigint | undefined {
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const [head = '', tail] = halves;
  const left = groupsOf(head, tail === undefined);
  const right = tail === undefined ? [] : groupsOf(tail, true);
  if (left === undefined || right === undefined) return undefined;
  const missing = 8 - left.length - right.length;
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;
  const groups = [...left, ...Array.from({ length: missing }, () => 0n), ...right];
  return groups.reduce((value, group) => (value << 16n) | group, 0n);
}

/** Returns the 16-bit groups of one side of `::`; the address may end with a dotted quad. */
function groupsOf(side: string, isEnd: boolean): bigint[] | undefined {
  if (side === '') return [];
  const groups: bigint[] = [];
  const words = side.split(':');
  for (const [index, word] of words.entries()) {
    if (/^[0-9a-fA-F]{1,4}$/.test(word)) {
      groups.push(BigInt(`0x${word}`));
    } else {
      const embedded = isEnd && index === words.length - 1 ? parseV4(word) : undefined;
      if (embedded === undefined) return undefined;
      groups.push(embedded >> 16n, embedded & 0xffffn);
    }
  }
  return groups;
}

function formatV4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 0xffn)).join('.');
}

function formatV6(value: bigint): string {
  const groups = Array.from({ length: 8 }, (_, index) => (value >> BigInt(112 - 16 * index)) & 0xffffn);
  const run = longestZeroRun(groups);
  const hex = groups.map((group) => group.toString(16));
  if (run.length < 2) return hex.join(':');
  return `${hex.slice(0, run.start).join(':')}::${hex.slice(run.start + run.length).join(':')}`;
}

function longestZeroRun(groups: readonly bigint[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (const [index, group] of groups.entries()) {
    if (group !== 0n) start = index + 1;
    else if (index + 1 - start > best.length) best = { start, length: index + 1 - start };
  }
  return best;
}

/** Returns a host name or the text of an address as it stands in a URL: an IPv6 address in brackets (RFC 3986 3.2.2). */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
