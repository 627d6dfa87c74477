import { NetplugError } from '../base/errors.ts';

export type Family = 4 | 6;

/** One IP address as a number, with its family. */
export interface Address {
  readonly family: Family;
  readonly value: bigint;
}

export const FAMILIES: readonly Family[] = [4, 6];
const [DOT, COLON, DIGIT_0, DIGIT_9, LETTER_A, LETTER_F] = [0x2e, 0x3a, 0x30, 0x39, 0x61, 0x66];
const ZEROS: readonly number[] = Array.from({ length: 8 }, () => 0);
/** Of the four words of 32 bits of an IPv6 address. */
const WORD_SHIFTS = [96n, 64n, 32n, 0n] as const;

/** Length of an address of the family in bits. */
export function bitsOf(family: Family): 32 | 128 {
  return family === 4 ? 32 : 128;
}

/** Parses strict dotted-quad IPv4, or RFC 4291 IPv6 without zone; undefined for anything else. */
export function tryParseAddress(text: string): Address | undefined {
  if (text.includes(':')) {
    const value = parseV6(text);
    return value === undefined ? undefined : { family: 6, value };
  }
  const value = parseV4(text);
  return value === undefined ? undefined : { family: 4, value: BigInt(value) };
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
  return family === 4 ? value.toString(32) : `v6 ${value.toString(32)}`;
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

/** Large lists are read and written as a whole, so the loops below work on numbers and make nothing for a digit. */
function parseV4(text: string): number | undefined {
  let [value, octet, digits, octets] = [0, 0, 0, 1];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === DOT) {
      if (digits === 0) return undefined;
      value = value * 256 + octet;
      octets += 1;
      octet = 0;
      digits = 0;
      continue;
    }
    const hasLeadingZero = digits > 0 && octet === 0;
    if (code < DIGIT_0 || code > DIGIT_9 || hasLeadingZero) return undefined;
    octet = octet * 10 + code - DIGIT_0;
    if (octet > 255) return undefined;
    digits += 1;
  }
  return octets === 4 && digits > 0 ? value * 256 + octet : undefined;
}

function parseV6(text: string): bigint | undefined {
  const groups: number[] = [];
  /** Number of groups before `::`. */
  let gap = text.startsWith('::') ? 0 : undefined;
  let at = gap === undefined ? 0 : 2;
  while (at < text.length) {
    const start = at;
    let group = 0;
    for (let digit = hexDigit(text, at); digit !== undefined; digit = hexDigit(text, at)) {
      group = group * 16 + digit;
      at += 1;
    }
    if (text.charCodeAt(at) === DOT) {
      // The address ends with a dotted quad.
      const quad = parseV4(text.slice(start));
      if (quad === undefined) return undefined;
      groups.push(quad >>> 16, quad & 0xffff);
      break;
    }
    if (at === start || at - start > 4 || groups.length === 8) return undefined;
    groups.push(group);
    if (at === text.length) break;
    if (text.charCodeAt(at) !== COLON || at + 1 === text.length) return undefined;
    at += 1;
    if (text.charCodeAt(at) !== COLON) continue;
    if (gap !== undefined) return undefined;
    gap = groups.length;
    at += 1;
  }
  const missing = 8 - groups.length;
  if (gap === undefined ? missing !== 0 : missing < 1) return undefined;
  if (gap !== undefined) groups.splice(gap, 0, ...ZEROS.slice(0, missing));
  let value = 0n;
  for (let word = 0; word < 8; word += 2)
    value = (value << 32n) | BigInt((groups[word] ?? 0) * 0x1_0000 + (groups[word + 1] ?? 0));
  return value;
}

function hexDigit(text: string, at: number): number | undefined {
  const code = text.charCodeAt(at);
  if (code >= DIGIT_0 && code <= DIGIT_9) return code - DIGIT_0;
  const lower = code | 0x20;
  return lower >= LETTER_A && lower <= LETTER_F ? lower - LETTER_A + 10 : undefined;
}

function formatV4(value: bigint): string {
  const word = Number(value);
  return `${String(word >>> 24)}.${String((word >>> 16) & 255)}.${String((word >>> 8) & 255)}.${String(word & 255)}`;
}

function formatV6(value: bigint): string {
  const groups: number[] = [];
  for (const shift of WORD_SHIFTS) {
    const word = Number((value >> shift) & 0xffff_ffffn);
    groups.push(word >>> 16, word & 0xffff);
  }
  const run = longestZeroRun(groups);
  if (run.length < 2) return hexOf(groups, 0, 8);
  return `${hexOf(groups, 0, run.start)}::${hexOf(groups, run.start + run.length, 8)}`;
}

function hexOf(groups: readonly number[], from: number, to: number): string {
  let text = '';
  for (let at = from; at < to; at += 1) text += `${at === from ? '' : ':'}${(groups[at] ?? 0).toString(16)}`;
  return text;
}

function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (let index = 0; index < groups.length; index += 1) {
    if (groups[index] !== 0) start = index + 1;
    else if (index + 1 - start > best.length) best = { start, length: index + 1 - start };
  }
  return best;
}

/** Returns a host name or the text of an address as it stands in a URL: an IPv6 address in brackets (RFC 3986 3.2.2). */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
