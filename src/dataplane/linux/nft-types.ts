/** Types of the keys and values of sets: their numbers in nft, their bytes and texts. Pure. */
import { type Family, addressBytes, addressFromBytes, formatAddress, parseAddress } from '../../net/address.ts';
import type { FilterSet } from '../policy-filter.ts';
import { attributeText } from './netlink.ts';

/** The kernel does not interpret these numbers. */
export const TYPE = { ipv4: 7, ipv6: 8, protocol: 12, port: 13, interface: 41 } as const;
/** Room for each type of a concatenation in its number. */
const TYPES_PER_PART = 64;
const INTERFACE_BYTES = 16;

interface Part {
  readonly bytes: number;
  readonly encode: (text: string) => Uint8Array;
  readonly decode: (bytes: Buffer) => string;
}

const PARTS: ReadonlyMap<number, Part> = new Map([
  [TYPE.ipv4, address(4)],
  [TYPE.ipv6, address(16)],
  [TYPE.protocol, number(1)],
  [TYPE.port, number(2)],
  [TYPE.interface, { bytes: INTERFACE_BYTES, encode: ifnameKey, decode: attributeText }],
]);

function address(bytes: number): Part {
  return {
    bytes,
    encode: (text) => addressBytes(parseAddress(text)),
    decode: (part) => formatAddress(addressFromBytes(part)),
  };
}

function number(bytes: number): Part {
  return {
    bytes,
    encode: (text) => {
      const part = Buffer.alloc(bytes);
      part.writeUIntBE(Number(text), 0, bytes);
      return part;
    },
    decode: (part) => String(part.readUIntBE(0, bytes)),
  };
}

export function ifnameKey(name: string): Buffer {
  const key = Buffer.alloc(INTERFACE_BYTES);
  key.write(name, 'utf8');
  return key;
}

export function addressType(family: Family): number {
  return family === 4 ? TYPE.ipv4 : TYPE.ipv6;
}

/** Returns the type of the keys of a set. */
export function keyType(set: FilterSet): number {
  if (set.kind === 'interfaces' || set.kind === 'limits') return TYPE.interface;
  const ip = addressType(set.family);
  if (set.kind === 'flows') return concatenated(ip, ip, TYPE.port, TYPE.port);
  if (set.kind === 'services') return concatenated(ip, TYPE.protocol, TYPE.port);
  return set.kind === 'translations' && set.by === 'both' ? concatenated(ip, ip) : ip;
}

function concatenated(...types: readonly number[]): number {
  return types.reduce((all, type) => all * TYPES_PER_PART + type, 0);
}

/** Sets have thousands of keys of a few types. */
const KNOWN = new Map<number, readonly Part[] | undefined>();

/** Returns the parts of the type; undefined when one of them is not known. */
function partsOf(type: number): readonly Part[] | undefined {
  if (!KNOWN.has(type)) KNOWN.set(type, findParts(type));
  return KNOWN.get(type);
}

function findParts(type: number): readonly Part[] | undefined {
  const parts: Part[] = [];
  for (let rest = type; rest > 0; rest = Math.floor(rest / TYPES_PER_PART)) {
    const part = PARTS.get(rest % TYPES_PER_PART);
    if (part === undefined) return undefined;
    parts.unshift(part);
  }
  return parts.length === 0 ? undefined : parts;
}

/** Each part of a concatenation takes a multiple of 4 bytes. */
function padded(bytes: number): number {
  return Math.ceil(bytes / 4) * 4;
}

export function keyLength(type: number): number {
  const [first, ...others] = partsOf(type) ?? [];
  if (others.length === 0) return first?.bytes ?? 0;
  return [first, ...others].reduce((sum, part) => sum + padded(part?.bytes ?? 0), 0);
}

/** Encodes a text of a known type; its parts are separated by spaces. */
export function encodeKey(type: number, text: string): Buffer {
  const parts = partsOf(type) ?? [];
  if (parts.length === 1) return Buffer.from(parts[0]?.encode(text) ?? []);
  const texts = text.split(' ');
  return Buffer.concat(
    parts.flatMap((part, index) => [part.encode(texts[index] ?? ''), Buffer.alloc(padded(part.bytes) - part.bytes)]),
  );
}

/** Returns the text of the key; its digits in hexadecimal for a type that is not known. */
export function decodeKey(type: number, key: Buffer): string {
  const parts = partsOf(type);
  if (parts === undefined || key.length < keyLength(type)) return key.toString('hex');
  let at = 0;
  return parts
    .map((part) => {
      const text = part.decode(key.subarray(at, at + part.bytes));
      at += padded(part.bytes);
      return text;
    })
    .join(' ');
}
