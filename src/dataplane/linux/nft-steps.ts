/** Single expressions of nf_tables. Pure. */
import { type Family, bitsOf } from '../../net/address.ts';
import type { PacketSide } from '../policy-filter.ts';
import { attribute, nested, textAttribute } from './netlink.ts';
import { be32Attribute } from './nft-messages.ts';
import { NFTA_DATA, NFTA_EXPR, NFTA_LIST_ELEM, NFTA_VERDICT } from './nft-numbers.ts';

export const META = { MARK: 3, IIFNAME: 6, OIFNAME: 7, NFTRACE: 12, NFPROTO: 15, L4PROTO: 16 } as const;
export const BASE = { NETWORK: 1, TRANSPORT: 2 } as const;
export const [EQUAL, NOT_EQUAL] = [0, 1];
const NFT_LOOKUP_F_INV = 1;
const VERDICT_REGISTER = 0;
export const REGISTER = 1;
/** First of the 4-byte registers, which share memory with the 16-byte ones. */
export const REGISTER_32 = 8;
/** Offsets of the addresses in the network header. */
const ADDRESS_OFFSETS: Readonly<Record<Family, Readonly<Record<PacketSide, number>>>> = {
  4: { source: 12, destination: 16 },
  6: { source: 8, destination: 24 },
};

export function hasBits(mask: number): readonly Buffer[] {
  return [masked(nativeWord(mask)), compare(nativeWord(0), true)];
}

/** Keeps the bits of the mask, then inverts those of `flipped`. */
export function masked(mask: Buffer, flipped: Buffer = Buffer.alloc(mask.length)): Buffer {
  return expression('bitwise', [
    be32Attribute(1, REGISTER),
    be32Attribute(2, REGISTER),
    be32Attribute(3, mask.length),
    data(4, mask),
    data(5, flipped),
  ]);
}

export function compare(value: Buffer, isNegated: boolean): Buffer {
  return expression('cmp', [
    be32Attribute(1, REGISTER),
    be32Attribute(2, isNegated ? NOT_EQUAL : EQUAL),
    data(3, value),
  ]);
}

export function lookup(
  set: string,
  {
    id,
    isNegated,
    register = REGISTER,
  }: { readonly id?: number; readonly isNegated: boolean; readonly register?: number },
): Buffer {
  return expression('lookup', [
    textAttribute(1, set),
    be32Attribute(2, register),
    ...(id === undefined ? [] : [be32Attribute(4, id)]),
    ...(isNegated ? [be32Attribute(5, NFT_LOOKUP_F_INV)] : []),
  ]);
}

export function dispatch(map: string): Buffer {
  return expression('lookup', [textAttribute(1, map), be32Attribute(2, REGISTER), be32Attribute(3, VERDICT_REGISTER)]);
}

export function fib(result: number, flags: number): Buffer {
  return expression('fib', [be32Attribute(1, REGISTER), be32Attribute(2, result), be32Attribute(3, flags)]);
}

export function conntrack(key: number): Buffer {
  return expression('ct', [be32Attribute(1, REGISTER), be32Attribute(2, key)]);
}

export function meta(key: number): Buffer {
  return expression('meta', [be32Attribute(1, REGISTER), be32Attribute(2, key)]);
}

export function loadAddress(family: Family, side: PacketSide, register: number): Buffer {
  return payload(BASE.NETWORK, ADDRESS_OFFSETS[family][side], bitsOf(family) / 8, register);
}

// oxlint-disable-next-line max-params -- position and target of one read
export function payload(base: number, offset: number, bytes: number, register = REGISTER): Buffer {
  return expression('payload', [
    be32Attribute(1, register),
    be32Attribute(2, base),
    be32Attribute(3, offset),
    be32Attribute(4, bytes),
  ]);
}

export function verdict(code: number, chain: string | undefined): Buffer {
  return expression('immediate', [be32Attribute(1, VERDICT_REGISTER), nested(2, [verdictData(code, chain)])]);
}

/** Encodes a verdict, as the value of an expression or of an element of a map. */
export function verdictData(code: number, chain: string | undefined): Buffer {
  const name = chain === undefined ? [] : [textAttribute(NFTA_VERDICT.CHAIN, chain)];
  return nested(NFTA_DATA.VERDICT, [be32Attribute(NFTA_VERDICT.CODE, code), ...name]);
}

export function expression(name: string, attributes: readonly Buffer[]): Buffer {
  return nested(NFTA_LIST_ELEM, expressionParts(name, attributes));
}

export function expressionParts(name: string, attributes: readonly Buffer[]): readonly Buffer[] {
  return [textAttribute(NFTA_EXPR.NAME, name), nested(NFTA_EXPR.DATA, attributes)];
}

export function data(type: number, value: Buffer): Buffer {
  return nested(type, [attribute(NFTA_DATA.VALUE, value)]);
}

/** The kernel keeps marks, states, statuses and types of addresses in its own byte order. */
export function nativeWord(value: number): Buffer {
  return Buffer.from(new Uint32Array([value]).buffer);
}

export function be16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value, 0);
  return bytes;
}
