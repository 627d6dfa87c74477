/** Messages of nf_tables about tables, chains, rules and sets, for family `inet`. Pure. */
import type { FilterHook, FilterSet } from '../policy-filter.ts';
import {
  NFNL_MSG_BATCH_BEGIN,
  NFNL_MSG_BATCH_END,
  NFNL_SUBSYS_NFTABLES,
  FAMILY_NUMBERS,
  NFGENMSG_BYTES,
  NFT_MSG,
  NFTA_TABLE,
  NFT_TABLE_F_DORMANT,
  NFT_TABLE_F_OWNER,
  NFTA_CHAIN,
  NFTA_HOOK,
  NFTA_RULE,
  NFTA_SET,
  NFTA_SET_DESC_SIZE,
  NFTA_SET_ELEM_LIST,
  NLM_F_APPEND,
  NFT_SET_ANONYMOUS,
  NFT_SET_CONSTANT,
  NFT_SET_INTERVAL,
  NFT_SET_MAP,
  NFT_SET_TIMEOUT,
  NFT_SET_EVAL,
  NFT_DATA_VERDICT,
  VERDICT_BYTES,
  NF_ACCEPT,
  NFTNL_UDATA_RULE_COMMENT,
  HOOKS,
  NFPROTO_UNSPEC,
  NFPROTO_INET,
} from './nft-numbers.ts';
import { TYPE, addressType, keyLength, keyType } from './nft-types.ts';
import {
  type Attributes,
  type Message,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  attribute,
  attributeText,
  attributesIn,
  decodeAttributes,
  nested,
  textAttribute,
  textOfAttribute,
} from './netlink.ts';

/** Sets whose elements expire. A node has fewer pods, and a limit is full again before. */
const LIMITS = { most: 4096, timeoutMs: 30_000n } as const;
/** Sets of flows and of their ends. Each element has a time of its own. */
const FLOWS = { most: 65_536, timeoutMs: 432_000_000n } as const;

/** Begins or ends a transaction. */
export function batchMark(mark: 'begin' | 'end'): Message {
  const body = Buffer.from([0, 0, 0, NFNL_SUBSYS_NFTABLES]);
  return { type: mark === 'begin' ? NFNL_MSG_BATCH_BEGIN : NFNL_MSG_BATCH_END, flags: 0, body };
}

/** Adds a table; the kernel refuses it when there is one of the name. */
export function addTable(name: string): Message {
  return message('NEWTABLE', NLM_F_CREATE | NLM_F_EXCL, [textAttribute(NFTA_TABLE.NAME, name)]);
}

/** Puts the hooks of a dormant table in force. */
export function wakeTable(name: string): Message {
  return message('NEWTABLE', 0, [textAttribute(NFTA_TABLE.NAME, name), be32Attribute(NFTA_TABLE.FLAGS, 0)]);
}

/** Adds a table that the kernel removes when the socket that sends this is closed. */
export function addOwnedTable(name: string): Message {
  return message('NEWTABLE', NLM_F_CREATE | NLM_F_EXCL, [
    textAttribute(NFTA_TABLE.NAME, name),
    be32Attribute(NFTA_TABLE.FLAGS, NFT_TABLE_F_OWNER),
  ]);
}

export function deleteTable(name: string): Message {
  return message('DELTABLE', 0, [textAttribute(NFTA_TABLE.NAME, name)]);
}

/** Adds a chain; a base chain accepts what no rule decides. */
export function addChain(table: string, name: string, hook: FilterHook | undefined): Message {
  const base = hook === undefined ? [] : baseAttributes(hook);
  return message('NEWCHAIN', NLM_F_CREATE, [...chainAttributes(table, name), ...base]);
}

function baseAttributes({ type, hook, priority }: FilterHook): readonly Buffer[] {
  const parts = [be32Attribute(NFTA_HOOK.HOOKNUM, HOOKS.indexOf(hook)), be32Attribute(NFTA_HOOK.PRIORITY, priority)];
  return [
    nested(NFTA_CHAIN.HOOK, parts),
    be32Attribute(NFTA_CHAIN.POLICY, NF_ACCEPT),
    textAttribute(NFTA_CHAIN.TYPE, type),
  ];
}

export function deleteChain(table: string, name: string): Message {
  return message('DELCHAIN', 0, chainAttributes(table, name));
}

function chainAttributes(table: string, name: string): readonly Buffer[] {
  return [textAttribute(NFTA_CHAIN.TABLE, table), textAttribute(NFTA_CHAIN.NAME, name)];
}

/** Deletes every rule of the chain. */
export function flushChain(table: string, name: string): Message {
  return message('DELRULE', 0, [textAttribute(NFTA_RULE.TABLE, table), textAttribute(NFTA_RULE.CHAIN, name)]);
}

/** Appends a rule with its comment. */
export function addRule(
  place: { readonly table: string; readonly chain: string },
  comment: string,
  expressions: readonly Buffer[],
): Message {
  const text = Buffer.from(`${comment}\0`);
  return message('NEWRULE', NLM_F_CREATE | NLM_F_APPEND, [
    textAttribute(NFTA_RULE.TABLE, place.table),
    textAttribute(NFTA_RULE.CHAIN, place.chain),
    nested(NFTA_RULE.EXPRESSIONS, expressions),
    attribute(NFTA_RULE.USERDATA, Buffer.concat([Buffer.from([NFTNL_UDATA_RULE_COMMENT, text.length]), text])),
  ]);
}

export function addSet(table: string, name: string, set: FilterSet): Message {
  const type = keyType(set);
  const data = dataOf(set);
  return message('NEWSET', NLM_F_CREATE, [
    ...setAttributes(table, name),
    be32Attribute(NFTA_SET.FLAGS, flagsOf(set)),
    be32Attribute(NFTA_SET.KEY_TYPE, type),
    be32Attribute(NFTA_SET.KEY_LEN, keyLength(type)),
    ...(data === undefined
      ? []
      : [be32Attribute(NFTA_SET.DATA_TYPE, data.type), be32Attribute(NFTA_SET.DATA_LEN, data.bytes)]),
    ...expiry(set),
    be32Attribute(NFTA_SET.ID, 0),
  ]);
}

function expiry({ kind }: FilterSet): readonly Buffer[] {
  if (kind !== 'limits' && kind !== 'flows' && kind !== 'cut addresses') return [];
  const { most, timeoutMs } = kind === 'limits' ? LIMITS : FLOWS;
  return [nested(NFTA_SET.DESC, [be32Attribute(NFTA_SET_DESC_SIZE, most)]), be64Attribute(NFTA_SET.TIMEOUT, timeoutMs)];
}

function flagsOf(set: FilterSet): number {
  if (set.kind === 'flows' || set.kind === 'cut addresses') return NFT_SET_TIMEOUT;
  if (set.kind === 'limits') return NFT_SET_TIMEOUT | NFT_SET_EVAL;
  return (set.kind === 'nets' ? NFT_SET_INTERVAL : 0) | (dataOf(set) === undefined ? 0 : NFT_SET_MAP);
}

/** Name of an anonymous set until the transaction that makes it ends. */
export const ANONYMOUS_SET = '__set%d';

export interface AnonymousSet {
  readonly id: number;
  readonly keyBytes: number;
  readonly isInterval: boolean;
  /** Encoded elements, in pieces of at most 64 KiB. */
  readonly elements: readonly Buffer[];
}

/** Makes a set that lives as long as the rule that looks it up, which must follow in the same transaction. */
export function addAnonymousSet(
  table: string,
  { id, keyBytes, isInterval, elements }: AnonymousSet,
): readonly Message[] {
  const flags = NFT_SET_ANONYMOUS | NFT_SET_CONSTANT | (isInterval ? NFT_SET_INTERVAL : 0);
  const types: Readonly<Record<number, number>> = { 2: TYPE.port, 4: TYPE.ipv4, 16: TYPE.ipv6 };
  const set = message('NEWSET', NLM_F_CREATE, [
    ...setAttributes(table, ANONYMOUS_SET),
    be32Attribute(NFTA_SET.FLAGS, flags),
    be32Attribute(NFTA_SET.KEY_TYPE, types[keyBytes] ?? TYPE.protocol),
    be32Attribute(NFTA_SET.KEY_LEN, keyBytes),
    be32Attribute(NFTA_SET.ID, id),
  ]);
  return [set, ...elements.map((piece) => addElements(table, ANONYMOUS_SET, { id, elements: piece }))];
}

export function deleteSet(table: string, name: string): Message {
  return message('DELSET', 0, setAttributes(table, name));
}

function setAttributes(table: string, name: string): readonly Buffer[] {
  return [textAttribute(NFTA_SET.TABLE, table), textAttribute(NFTA_SET.NAME, name)];
}

interface ElementBytes {
  /** The id of an anonymous set. */
  readonly id?: number;
  /** Encoded; at most 64 KiB. */
  readonly elements: Buffer;
}

export function addElements(table: string, set: string, elements: ElementBytes): Message {
  return message('NEWSETELEM', NLM_F_CREATE, elementAttributes(table, set, elements));
}

export function deleteElements(table: string, set: string, elements: ElementBytes): Message {
  return message('DELSETELEM', 0, elementAttributes(table, set, elements));
}

function elementAttributes(table: string, set: string, { id, elements }: ElementBytes): readonly Buffer[] {
  return [
    textAttribute(NFTA_SET_ELEM_LIST.TABLE, table),
    textAttribute(NFTA_SET_ELEM_LIST.SET, set),
    ...(id === undefined ? [] : [be32Attribute(NFTA_SET_ELEM_LIST.SET_ID, id)]),
    nested(NFTA_SET_ELEM_LIST.ELEMENTS, [elements]),
  ];
}

export function getTable(name: string): Message {
  return message('GETTABLE', NLM_F_ACK, [textAttribute(NFTA_TABLE.NAME, name)]);
}

export function isDormant(table: Buffer): boolean {
  return (be32Of(attributesOf(table).get(NFTA_TABLE.FLAGS)) & NFT_TABLE_F_DORMANT) !== 0;
}

/** Lists the objects of that kind of all tables. */
export function dumpEverywhere(name: 'GETTABLE' | 'GETCHAIN' | 'GETRULE' | 'GETSET'): Message {
  return message(name, NLM_F_DUMP, [], NFPROTO_UNSPEC);
}

/** Lists the chains of every `inet` table. */
export function dumpChains(): Message {
  return message('GETCHAIN', NLM_F_DUMP, []);
}

export function dumpRules(table: string): Message {
  return message('GETRULE', NLM_F_DUMP, [textAttribute(NFTA_RULE.TABLE, table)]);
}

export function dumpSets(table: string): Message {
  return message('GETSET', NLM_F_DUMP, [textAttribute(NFTA_SET.TABLE, table)]);
}

export function dumpElements(table: string, set: string, family = NFPROTO_INET): Message {
  const attributes = [textAttribute(NFTA_SET_ELEM_LIST.TABLE, table), textAttribute(NFTA_SET_ELEM_LIST.SET, set)];
  return message('GETSETELEM', NLM_F_DUMP, attributes, family);
}

/** Asks for elements of a set. The kernel answers with ENOENT when the set does not have them. */
export function getElements(table: string, set: string, elements: ElementBytes): Message {
  return message('GETSETELEM', NLM_F_ACK, elementAttributes(table, set, elements));
}

export interface ListedChain {
  readonly table: string;
  readonly name: string;
  /** As `hookText` returns it. */
  readonly hook: string;
}

export function decodeChain(body: Buffer): ListedChain {
  const attributes = attributesOf(body);
  const hook = attributesIn(attributes, NFTA_CHAIN.HOOK);
  return {
    table: textOfAttribute(attributes, NFTA_CHAIN.TABLE),
    name: textOfAttribute(attributes, NFTA_CHAIN.NAME),
    hook:
      hook.size === 0
        ? ''
        : placeText({
            type: textOfAttribute(attributes, NFTA_CHAIN.TYPE),
            hook: HOOKS[be32Of(hook.get(NFTA_HOOK.HOOKNUM))] ?? '',
            priority: be32Of(hook.get(NFTA_HOOK.PRIORITY)) | 0,
            policy: be32Of(attributes.get(NFTA_CHAIN.POLICY)),
          }),
  };
}

/** Returns what must be equal for a chain of the kernel to be used as the desired one: where the kernel calls it, if it does. */
export function hookText(hook: FilterHook | undefined): string {
  return hook === undefined ? '' : placeText({ ...hook, policy: NF_ACCEPT });
}

function placeText(base: Readonly<Record<'type' | 'hook', string> & Record<'priority' | 'policy', number>>): string {
  return `${base.type} ${base.hook} ${String(base.priority)} policy ${String(base.policy)}`;
}

export interface ListedRule {
  readonly chain: string;
  readonly handle: bigint;
  /** Empty when the rule has none. */
  readonly comment: string;
  /** Expressions as the kernel lists them. */
  readonly expressions: Buffer;
}

export function decodeRule(body: Buffer): ListedRule {
  const attributes = attributesOf(body);
  return {
    chain: textOfAttribute(attributes, NFTA_RULE.CHAIN),
    handle: be64Of(attributes.get(NFTA_RULE.HANDLE)),
    comment: commentIn(attributes.get(NFTA_RULE.USERDATA)),
    expressions: attributes.get(NFTA_RULE.EXPRESSIONS) ?? Buffer.alloc(0),
  };
}

function commentIn(userdata: Buffer | undefined): string {
  if (userdata === undefined || userdata.length < 2 || userdata[0] !== NFTNL_UDATA_RULE_COMMENT) return '';
  return attributeText(userdata.subarray(2, 2 + userdata.readUInt8(1)));
}

export interface ListedSet {
  readonly name: string;
  /** Types and flags. */
  readonly shape: string;
}

/** Decodes a named set; undefined for an anonymous one. */
export function decodeSet(body: Buffer): ListedSet | undefined {
  const attributes = attributesOf(body);
  const flags = be32Of(attributes.get(NFTA_SET.FLAGS));
  if ((flags & NFT_SET_ANONYMOUS) !== 0) return undefined;
  const [type, data] = [NFTA_SET.KEY_TYPE, NFTA_SET.DATA_TYPE].map((each) => be32Of(attributes.get(each)));
  return { name: textOfAttribute(attributes, NFTA_SET.NAME), shape: shapeText({ type, flags, data }) };
}

/** Returns what must be equal for a set of the kernel to be used as the desired one. */
export function setShape(set: FilterSet): string {
  return shapeText({ type: keyType(set), flags: flagsOf(set), data: dataOf(set)?.type ?? 0 });
}

function shapeText(parts: Readonly<Record<'type' | 'flags' | 'data', number | undefined>>): string {
  return `type ${String(parts.type)} flags ${String(parts.flags)} data ${String(parts.data)}`;
}

/** Returns what a map has for a key; undefined for a set. */
function dataOf(set: FilterSet): { readonly type: number; readonly bytes: number } | undefined {
  if (set.kind === 'interfaces') return { type: NFT_DATA_VERDICT, bytes: VERDICT_BYTES };
  if (set.kind !== 'translations') return undefined;
  const type = addressType(set.family);
  return { type, bytes: keyLength(type) };
}

/** Returns the attributes of each element in a listing. */
export function listedElements(body: Buffer): Iterable<Attributes> {
  return listedAttributes(attributesOf(body).get(NFTA_SET_ELEM_LIST.ELEMENTS) ?? Buffer.alloc(0));
}

/** Returns the attributes of each member of a list. */
export function* listedAttributes(list: Buffer): Generator<Attributes> {
  for (let at = 0; at + 4 <= list.length;) {
    const length = list.readUInt16LE(at);
    if (length < 4 || at + length > list.length) break;
    yield decodeAttributes(list.subarray(at + 4, at + length));
    at += (length + 3) & ~3;
  }
}

/** Returns a message of nf_tables; of the family `inet` unless given. */
// oxlint-disable-next-line max-params -- the parts of a message, of which one is nearly always the same
export function message(
  name: keyof typeof NFT_MSG,
  flags: number,
  attributes: readonly Uint8Array[],
  family = NFPROTO_INET,
): Message {
  const header = Buffer.from([family, 0, 0, 0]);
  return { type: (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG[name], flags, body: Buffer.concat([header, ...attributes]) };
}

/** Returns the name of the family that a message of the kernel is about. */
export function familyOf(body: Buffer): string {
  return Object.entries(FAMILY_NUMBERS).find(([, number]) => number === body[0])?.[0] ?? 'unknown';
}

export function attributesOf(body: Buffer): Attributes {
  return decodeAttributes(body.subarray(NFGENMSG_BYTES));
}

/** nf_tables writes numbers in network byte order. */
export function be16Attribute(type: number, value: number): Buffer {
  const payload = Buffer.alloc(2);
  payload.writeUInt16BE(value, 0);
  return attribute(type, payload);
}

export function be32Attribute(type: number, value: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(value >>> 0, 0);
  return attribute(type, payload);
}

export function be64Attribute(type: number, value: bigint): Buffer {
  const payload = Buffer.alloc(8);
  payload.writeBigUInt64BE(value, 0);
  return attribute(type, payload);
}

export function be32Of(payload: Buffer | undefined): number {
  return payload === undefined || payload.length < 4 ? 0 : payload.readUInt32BE(0);
}

export function be64Of(payload: Buffer | undefined): bigint {
  return payload === undefined || payload.length < 8 ? 0n : payload.readBigUInt64BE(0);
}
