import { type Address, addressBytes, bitsOf } from '../../net/address.ts';
import { AF_OF } from './address-messages.ts';
import { type Message, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, attribute, u32Attribute } from './netlink.ts';

const RTM_NEWRULE = 32;
const RTM_DELRULE = 33;
const FRA_SRC = 2;
const FRA_PRIORITY = 6;
const FRA_TABLE = 15;
const FR_ACT_TO_TBL = 1;
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
