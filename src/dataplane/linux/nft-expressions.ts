/** Rules of a policy table as expressions of nf_tables. Pure. */
import { never } from '../../base/errors.ts';
import { type Family, addressBytes, bitsOf } from '../../net/address.ts';
import type { Cidr } from '../../net/cidr.ts';
import type {
  AddressType,
  ConnectionState,
  FilterAction,
  FilterMatch,
  PacketSide,
  PortSpan,
  TableRule,
} from '../policy-filter.ts';
import { FLOW_NOTE } from './flow-note.ts';
import { type Message, nested, textAttribute } from './netlink.ts';
import {
  BASE,
  EQUAL,
  META,
  NOT_EQUAL,
  REGISTER,
  REGISTER_32,
  be16,
  compare,
  conntrack,
  data,
  dispatch,
  expression,
  expressionParts,
  fib,
  hasBits,
  loadAddress,
  lookup,
  masked,
  meta,
  nativeWord,
  payload,
  verdict,
} from './nft-steps.ts';
import { NFTA_LIST_ELEM } from './nft-numbers.ts';
import { intervalElements, pointElements, prefixMask, intervalOf } from './nft-elements.ts';
import { ifnameKey } from './nft-types.ts';
import { ANONYMOUS_SET, addAnonymousSet, be16Attribute, be32Attribute, be64Attribute } from './nft-messages.ts';

const NFT_DYNSET_OP_UPDATE = 1;
const NFPROTO: Readonly<Record<Family, number>> = { 4: 2, 6: 10 };
const PORT_OFFSETS: Readonly<Record<PacketSide, number>> = { source: 0, destination: 2 };
/** Byte 13 of the header holds the flags; SYN without FIN, RST and ACK opens a connection. */
const TCP = { FLAGS_OFFSET: 13, OPENING_MASK: 0x17, SYN: 0x02 } as const;
const STATE_BITS: Readonly<Record<ConnectionState, number>> = {
  invalid: 1,
  established: 2,
  related: 4,
  new: 8,
  untracked: 64,
};
const CT = { STATE: 0, STATUS: 2, LABELS: 13 } as const;
const NFTA_CT = { KEY: 2, SOURCE_REGISTER: 4 } as const;
/** A bit of the status. */
const DESTINATION_TRANSLATED = 1 << 5;
const VERDICTS = { drop: 0, accept: 1, jump: -3, goto: -4, return: -5 } as const;
const FIB = { RESULT_OIF: 1, RESULT_OIFNAME: 2, RESULT_ADDRTYPE: 3 } as const;
const FIB_FLAGS = { source: 1, destination: 2, entering: 8, leaving: 16 } as const;
/** Of routes. */
const ADDRESS_TYPE_NUMBERS: Readonly<Record<AddressType, number>> = { local: 2, broadcast: 3, multicast: 5 };
const NAT_TYPES: Readonly<Record<PacketSide, number>> = { source: 0, destination: 1 };
/** Concurrent connections do not collide. */
const NF_NAT_RANGE_PROTO_RANDOM_FULLY = 16;
const LOG_LEVEL_INFO = 6;
/** Bit of the packet mark. kube-proxy uses bits 14 and 15. */
const MARK_BIT = 0x0010_0000;
/** Enough for the headers of IPv6, TCP and a tunnel. */
const REPORTED_BYTES = 128;

export interface EncodedRule {
  /** Messages for the sets of the rule, which precede it. */
  readonly sets: readonly Message[];
  readonly expressions: readonly Buffer[];
}

/** Encodes rules of one transaction, which numbers their anonymous sets. */
export class RuleEncoder {
  readonly #table: string;
  #lastSetId = 0;

  constructor(table: string) {
    this.#table = table;
  }

  encode(rule: TableRule): EncodedRule {
    const sets: Message[] = [];
    const expressions: Buffer[] = [];
    const lookUpAnonymous: LookUp = (keys, isNegated) => {
      this.#lastSetId += 1;
      sets.push(...addAnonymousSet(this.#table, { id: this.#lastSetId, ...keys }));
      return lookup(ANONYMOUS_SET, { id: this.#lastSetId, isNegated });
    };
    const context: Context = { families: new Set(), lookUpAnonymous };
    for (const part of rule.parts) expressions.push(...encodePart(part, context));
    return { sets, expressions };
  }
}

/** Returns expressions that make the kernel report what it does with the packet from here on. */
export function traceExpressions(): readonly Buffer[] {
  return [
    expression('immediate', [be32Attribute(1, REGISTER), data(2, Buffer.from([1]))]),
    expression('meta', [be32Attribute(2, META.NFTRACE), be32Attribute(3, REGISTER)]),
  ];
}

type Keys = { readonly keyBytes: number; readonly isInterval: boolean; readonly elements: readonly Buffer[] };
type LookUp = (keys: Keys, isNegated: boolean) => Buffer;

interface Context {
  /** Families that the rule has tested. */
  readonly families: Set<Family>;
  readonly lookUpAnonymous: LookUp;
}

function encodePart(part: FilterMatch | FilterAction, context: Context): readonly Buffer[] {
  switch (part.kind) {
    case 'state': {
      const mask = part.states.reduce((bits, state) => bits | STATE_BITS[state], 0);
      return [conntrack(CT.STATE), ...hasBits(mask)];
    }
    case 'translated':
      return [conntrack(CT.STATUS), ...hasBits(DESTINATION_TRANSLATED)];
    case 'family':
      return testFamily(part.family, context);
    case 'protocol':
      return [meta(META.L4PROTO), isAmong(part.protocols, part.isNegated === true, context)];
    case 'nets':
      return [...testFamily(part.family, context), ...matchNets(part, context)];
    case 'member':
      return [
        ...testFamily(part.family, context),
        loadAddress(part.family, part.side, REGISTER),
        lookup(part.set, { isNegated: part.isNegated === true }),
      ];
    case 'service':
      return [...testFamily(part.family, context), ...matchService(part)];
    case 'flow':
      return [...testFamily(part.family, context), ...matchFlow(part)];
    case 'ports':
      return matchPorts(part, context);
    case 'icmp':
      return [payload(BASE.TRANSPORT, 0, 1), isAmong(part.types, part.isNegated === true, context)];
    case 'icmp code':
      return [payload(BASE.TRANSPORT, 0, 2), compare(Buffer.from([part.type, part.code]), part.isNegated === true)];
    case 'tcp opening':
      return [
        payload(BASE.TRANSPORT, TCP.FLAGS_OFFSET, 1),
        masked(Buffer.from([TCP.OPENING_MASK])),
        compare(Buffer.from([TCP.SYN]), part.isNegated === true),
      ];
    case 'interface':
      return matchInterface(part);
    case 'address type':
      return [
        fib(FIB.RESULT_ADDRTYPE, FIB_FLAGS[part.side] | (part.isOfLeaving === true ? FIB_FLAGS.leaving : 0)),
        compare(nativeWord(ADDRESS_TYPE_NUMBERS[part.type]), part.isNegated === true),
      ];
    case 'foreign source':
      return [fib(FIB.RESULT_OIF, FIB_FLAGS.source | FIB_FLAGS.entering), compare(nativeWord(0), false)];
    case 'source route':
      return [fib(FIB.RESULT_OIFNAME, FIB_FLAGS.source), compareName(part.name, false)];
    case 'payload':
      return [
        payload(BASE.TRANSPORT, part.offset, part.bytes.length),
        compare(Buffer.from(part.bytes), part.isNegated === true),
      ];
    case 'marked':
      return [meta(META.MARK), ...hasBits(MARK_BIT)];
    case 'mark':
      return setMark(part.isSet);
    case 'note flow':
      return noteFlow();
    case 'limit each':
      return limitEach(part);
    case 'translate':
      return [...testFamily(part.family, context), ...translate(part)];
    case 'dispatch':
      return [meta(part.direction === 'in' ? META.IIFNAME : META.OIFNAME), dispatch(part.map)];
    case 'count':
      return [expression('counter', [])];
    case 'limit':
      return [nested(NFTA_LIST_ELEM, limit(part))];
    case 'log':
      return [expression('log', [textAttribute(2, part.prefix), be32Attribute(5, LOG_LEVEL_INFO)])];
    case 'report':
      return [
        expression('log', [
          be16Attribute(1, part.group),
          textAttribute(2, part.prefix),
          be32Attribute(3, REPORTED_BYTES),
        ]),
      ];
    case 'untrack':
      return [expression('notrack', [])];
    case 'masquerade':
      return [expression('masq', [be32Attribute(1, NF_NAT_RANGE_PROTO_RANDOM_FULLY)])];
    case 'accept':
    case 'drop':
    case 'return':
      return [verdict(VERDICTS[part.kind], undefined)];
    case 'jump':
    case 'goto':
      return [verdict(VERDICTS[part.kind], part.chain)];
    default:
      return never(part);
  }
}

/** Sets the bit of the labels, and leaves the others as they are. */
function noteFlow(): readonly Buffer[] {
  return [
    expression('immediate', [be32Attribute(1, REGISTER), data(2, FLOW_NOTE)]),
    expression('ct', [be32Attribute(NFTA_CT.KEY, CT.LABELS), be32Attribute(NFTA_CT.SOURCE_REGISTER, REGISTER)]),
  ];
}

/** Counts the interface in the set, with a limit of its own. Ends the rule when the limit is reached or the set is full. */
function limitEach(action: FilterAction & { kind: 'limit each' }): readonly Buffer[] {
  return [
    meta(action.direction === 'in' ? META.IIFNAME : META.OIFNAME),
    expression('dynset', [
      textAttribute(1, action.set),
      be32Attribute(3, NFT_DYNSET_OP_UPDATE),
      be32Attribute(4, REGISTER),
      nested(7, limit(action)),
    ]),
  ];
}

function limit({ perSecond, burst }: { readonly perSecond: number; readonly burst: number }): readonly Buffer[] {
  return expressionParts('limit', [be64Attribute(1, BigInt(perSecond)), be64Attribute(2, 1n), be32Attribute(3, burst)]);
}

/** Compares the family once per rule, because offsets in headers depend on it. */
function testFamily(family: Family, { families }: Context): readonly Buffer[] {
  if (families.has(family)) return [];
  families.add(family);
  return [meta(META.NFPROTO), compare(Buffer.from([NFPROTO[family]]), false)];
}

function matchNets(match: FilterMatch & { kind: 'nets' }, { lookUpAnonymous }: Context): readonly Buffer[] {
  const { family, side, nets } = match;
  const isNegated = match.isNegated === true;
  const load = loadAddress(family, side, REGISTER);
  const [only] = nets;
  if (only !== undefined && nets.length === 1) return [load, ...inPrefix(only, isNegated)];
  const elements = intervalElements(nets.map(intervalOf), bitsOf(family) / 8);
  return [load, lookUpAnonymous({ keyBytes: bitsOf(family) / 8, isInterval: true, elements }, isNegated)];
}

function inPrefix({ base, prefixBits }: Cidr, isNegated: boolean): readonly Buffer[] {
  const value = Buffer.from(addressBytes(base));
  return prefixBits === bitsOf(base.family)
    ? [compare(value, isNegated)]
    : [masked(prefixMask(base.family, prefixBits)), compare(value, isNegated)];
}

/** Loads address, protocol and port side by side, each from a multiple of 4 bytes. */
function matchService({ family, side, set, isNegated = false }: FilterMatch & { kind: 'service' }): readonly Buffer[] {
  const afterAddress = REGISTER_32 + bitsOf(family) / 32;
  return [
    loadAddress(family, side, REGISTER_32),
    expression('meta', [be32Attribute(1, afterAddress), be32Attribute(2, META.L4PROTO)]),
    payload(BASE.TRANSPORT, PORT_OFFSETS[side], 2, afterAddress + 1),
    lookup(set, { isNegated, register: REGISTER_32 }),
  ];
}

/** Loads addresses and ports side by side. */
function matchFlow({ family, set }: FilterMatch & { kind: 'flow' }): readonly Buffer[] {
  const words = bitsOf(family) / 32;
  const [destination, ports] = [REGISTER_32 + words, REGISTER_32 + 2 * words];
  return [
    loadAddress(family, 'source', REGISTER_32),
    loadAddress(family, 'destination', destination),
    payload(BASE.TRANSPORT, PORT_OFFSETS.source, 2, ports),
    payload(BASE.TRANSPORT, PORT_OFFSETS.destination, 2, ports + 1),
    lookup(set, { isNegated: false, register: REGISTER_32 }),
  ];
}

/** Loads the key side by side, looks up the address, and writes it into the packet. */
function translate({ side, family, by, map }: FilterAction & { kind: 'translate' }): readonly Buffer[] {
  const sides: readonly PacketSide[] = by === 'both' ? ['source', 'destination'] : [by];
  return [
    ...sides.map((each, index) => loadAddress(family, each, REGISTER_32 + (index * bitsOf(family)) / 32)),
    expression('lookup', [textAttribute(1, map), be32Attribute(2, REGISTER_32), be32Attribute(3, REGISTER)]),
    expression('nat', [
      be32Attribute(1, NAT_TYPES[side]),
      be32Attribute(2, NFPROTO[family]),
      be32Attribute(3, REGISTER),
    ]),
  ];
}

function matchPorts(match: FilterMatch & { kind: 'ports' }, { lookUpAnonymous }: Context): readonly Buffer[] {
  const isNegated = match.isNegated === true;
  const load = payload(BASE.TRANSPORT, PORT_OFFSETS[match.side], 2);
  const [only] = match.spans;
  if (only !== undefined && match.spans.length === 1) return [load, inSpan(only, isNegated)];
  const ranges = match.spans.map(({ first, last }) => ({ first: BigInt(first), last: BigInt(last) }));
  return [load, lookUpAnonymous({ keyBytes: 2, isInterval: true, elements: intervalElements(ranges, 2) }, isNegated)];
}

function inSpan({ first, last }: PortSpan, isNegated: boolean): Buffer {
  if (first === last) return compare(be16(first), isNegated);
  return expression('range', [
    be32Attribute(1, REGISTER),
    be32Attribute(2, isNegated ? NOT_EQUAL : EQUAL),
    data(3, be16(first)),
    data(4, be16(last)),
  ]);
}

function matchInterface({
  direction,
  name,
  isNegated = false,
}: FilterMatch & { kind: 'interface' }): readonly Buffer[] {
  return [meta(direction === 'in' ? META.IIFNAME : META.OIFNAME), compareName(name, isNegated)];
}

/** Compares the name of an interface. The register holds 16 bytes, padded with zeros; a prefix compares fewer. */
function compareName(name: string, isNegated: boolean): Buffer {
  const isPrefix = name.endsWith('*');
  return compare(isPrefix ? Buffer.from(name.slice(0, -1)) : ifnameKey(name), isNegated);
}

/** Compares one byte. */
function isAmong(values: readonly number[], isNegated: boolean, { lookUpAnonymous }: Context): Buffer {
  const [only] = values;
  if (only !== undefined && values.length === 1) return compare(Buffer.from([only]), isNegated);
  const elements = pointElements(values.map((value) => Buffer.from([value])));
  return lookUpAnonymous({ keyBytes: 1, isInterval: false, elements }, isNegated);
}

function setMark(isSet: boolean): readonly Buffer[] {
  const bit = nativeWord(isSet ? MARK_BIT : 0);
  const store = expression('meta', [be32Attribute(2, META.MARK), be32Attribute(3, REGISTER)]);
  return [meta(META.MARK), masked(nativeWord(~MARK_BIT), bit), store];
}
