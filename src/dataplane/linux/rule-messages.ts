import { type Address, type Family, addressBytes, addressFromBytes, bitsOf } from '../../net/address.ts';
import type { Cidr } from '../../net/cidr.ts';
import { AF_OF } from './address-messages.ts';
import {
  type Message,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  attribute,
  decodeAttributes,
  textOfAttribute,
  u32Attribute,
  u32Of,
} from './netlink.ts';

const RTM_NEWRULE = 32;
const RTM_DELRULE = 33;
const RTM_GETRULE = 34;
const RULE_BYTES = 12;
const FRA_DST = 1;
const FRA_SRC = 2;
const FRA_IIFNAME = 3;
const FRA_PRIORITY = 6;
const FRA_FWMARK = 10;
const FRA_TABLE = 15;
const FRA_FWMASK = 16;
const FRA_OIFNAME = 17;
const FRA_L3MDEV = 19;
const FRA_IP_PROTO = 22;
const FRA_SPORT_RANGE = 23;
const FRA_DPORT_RANGE = 24;
const FIB_RULE_INVERT = 0x2;
const FR_ACT_TO_TBL = 1;
const REFUSING_ACTIONS: ReadonlyMap<number, string> = new Map([
  [6, 'blackhole'],
  [7, 'unreachable'],
  [8, 'prohibit'],
]);
/** Selectors of packets that a look-up without a protocol does not describe. */
const NARROWING: readonly number[] = [FRA_OIFNAME, FRA_IP_PROTO, FRA_SPORT_RANGE, FRA_DPORT_RANGE];
/** Evaluated before the rule of the main table, which has 32766. */
const PRIORITY = 20_000;

/** Adds a rule: packets with the source address are routed by the table first. */
export function addSourceRule(address: Address, table: number): Message {
  return { type: RTM_NEWRULE, flags: NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, body: ruleBody(address, table) };
}

export function deleteSourceRule(address: Address, table: number): Message {
  return { type: RTM_DELRULE, flags: NLM_F_ACK, body: ruleBody(address, table) };
}

function ruleBody(address: Address, table: number): Buffer {
  const { family } = address;
  const header = Buffer.from([AF_OF[family], 0, bitsOf(family), 0, 0, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0]);
  const attributes = [
    attribute(FRA_SRC, addressBytes(address)),
    u32Attribute(FRA_PRIORITY, PRIORITY),
    u32Attribute(FRA_TABLE, table),
  ];
  return Buffer.concat([header, ...attributes]);
}

/** One routing rule as the kernel reports it. */
export interface RoutingRule {
  readonly preference: number;
  /** The table in which the rule looks, or how it refuses packets; undefined for a rule of another kind. */
  readonly action: { readonly table: number } | { readonly refuses: string } | undefined;
  readonly from: Cidr | undefined;
  readonly to: Cidr | undefined;
  /** Name of the link by which a packet comes. */
  readonly incoming: string | undefined;
  /** Whether the rule is for packets without a mark. */
  readonly takesUnmarked: boolean;
  /** Whether it is for some protocols, ports or outgoing links only. */
  readonly isNarrow: boolean;
  readonly isInverted: boolean;
  readonly isOfVrf: boolean;
}

/** Lists the rules of a family, in the order in which the kernel tries them. */
export function dumpRoutingRules(family: Family): Message {
  const header = Buffer.alloc(RULE_BYTES);
  header.writeUInt8(AF_OF[family], 0);
  return { type: RTM_GETRULE, flags: NLM_F_DUMP, body: header };
}

export function decodeRoutingRule(body: Buffer): RoutingRule {
  const attributes = decodeAttributes(body.subarray(RULE_BYTES));
  const cidrOf = (type: number, prefixBits: number): Cidr | undefined => {
    const base = attributes.get(type);
    return base === undefined || prefixBits === 0 ? undefined : { base: addressFromBytes(base), prefixBits };
  };
  const action = body.readUInt8(7);
  const refuses = REFUSING_ACTIONS.get(action);
  const table = u32Of(attributes.get(FRA_TABLE)) ?? body.readUInt8(4);
  const mark = u32Of(attributes.get(FRA_FWMARK)) ?? 0;
  const mask = u32Of(attributes.get(FRA_FWMASK)) ?? 0xff_ff_ff_ff;
  const incoming = textOfAttribute(attributes, FRA_IIFNAME);
  return {
    preference: u32Of(attributes.get(FRA_PRIORITY)) ?? 0,
    action: action === FR_ACT_TO_TBL ? { table } : refuses === undefined ? undefined : { refuses },
    from: cidrOf(FRA_SRC, body.readUInt8(2)),
    to: cidrOf(FRA_DST, body.readUInt8(1)),
    incoming: incoming === '' ? undefined : incoming,
    takesUnmarked: (mark & mask) === 0,
    isNarrow: body.readUInt8(3) !== 0 || NARROWING.some((type) => attributes.has(type)),
    isInverted: (body.readUInt32LE(8) & FIB_RULE_INVERT) !== 0,
    isOfVrf: (attributes.get(FRA_L3MDEV)?.readUInt8(0) ?? 0) !== 0,
  };
}
