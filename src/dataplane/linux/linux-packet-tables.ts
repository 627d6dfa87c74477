import { ownValue } from '../../base/own-value.ts';
import type { HostChain, HostElement, HostRule, HostSet, HostTable, PacketTables } from '../packet-tables.ts';
import { loadAddon } from './addon.ts';
import { listIpSets } from './ip-sets.ts';
import { decodeData, decodeExpressions } from './listed-expressions.ts';
import { type Attributes, decodeAttributes, NLM_F_DUMP, textAttribute, textOfAttribute } from './netlink.ts';
import {
  attributesOf,
  be32Of,
  decodeRule,
  dumpEverywhere,
  dumpElements,
  familyOf,
  listedElements,
  message,
} from './nft-messages.ts';
import {
  FAMILY_NUMBERS,
  HOOKS,
  NF_ACCEPT,
  NFTA_CHAIN,
  NFTA_HOOK,
  NFTA_RULE,
  NFTA_SET,
  NFTA_SET_ELEM,
  NFTA_TABLE,
  NFT_SET_ELEM_INTERVAL_END,
  NFT_SET_MAP,
} from './nft-numbers.ts';
import { decodeKey } from './nft-types.ts';
import { NftSocket } from './nft-socket.ts';

/** Reads the tables of the network namespace of the calling thread; `addonPath` as for `loadAddon`. */
export function linuxPacketTables(addonPath?: string): PacketTables {
  return {
    list: async (signal) => {
      signal.throwIfAborted();
      using socket = NftSocket.open(loadAddon(addonPath));
      const [tables, chains, rules, sets] = [
        await socket.list('list the nftables tables', dumpEverywhere('GETTABLE')),
        await socket.list('list the nftables chains', dumpEverywhere('GETCHAIN')),
        await socket.list('list the nftables rules', dumpEverywhere('GETRULE')),
        await socket.list('list the nftables sets', dumpEverywhere('GETSET')),
      ];
      signal.throwIfAborted();
      return joinTables({ tables, chains, rules, sets });
    },
    listBaseChains: async (signal) => {
      signal.throwIfAborted();
      using socket = NftSocket.open(loadAddon(addonPath));
      const bodies = await socket.list('list the nftables chains', dumpEverywhere('GETCHAIN'));
      signal.throwIfAborted();
      return joinBases(bodies);
    },
    rulesOf: async ({ family, name }, chain, signal) => {
      signal.throwIfAborted();
      using socket = NftSocket.open(loadAddon(addonPath));
      const place = [textAttribute(NFTA_RULE.TABLE, name), textAttribute(NFTA_RULE.CHAIN, chain)];
      const dump = message('GETRULE', NLM_F_DUMP, place, ownValue(FAMILY_NUMBERS, family));
      const bodies = await socket.list(`list the rules of the chain "${chain}"`, dump);
      return bodies.map(hostRule);
    },
    setsOf: async ({ family, name }, signal) => {
      signal.throwIfAborted();
      using socket = NftSocket.open(loadAddon(addonPath));
      const place = [textAttribute(NFTA_SET.TABLE, name)];
      const dump = message('GETSET', NLM_F_DUMP, place, ownValue(FAMILY_NUMBERS, family));
      const bodies = await socket.list(`list the sets of the table "${name}"`, dump);
      return bodies.map((body) => hostSet(attributesOf(body)));
    },
    elements: async ({ family, name }, set, signal) => {
      signal.throwIfAborted();
      using socket = NftSocket.open(loadAddon(addonPath));
      const dump = dumpElements(name, set.name, ownValue(FAMILY_NUMBERS, family));
      const bodies = await socket.list(`list the elements of the set "${set.name}"`, dump);
      return bodies.flatMap((body) => Array.from(listedElements(body), (element) => decodeElement(element, set)));
    },
    listIpSets: async (signal) => {
      signal.throwIfAborted();
      return listIpSets(loadAddon(addonPath));
    },
  };
}

function joinTables(bodies: Readonly<Record<'tables' | 'chains' | 'rules' | 'sets', readonly Buffer[]>>) {
  const rules = Map.groupBy(bodies.rules, (body) => `${keyOf(body)} ${decodeRule(body).chain}`);
  const chains = Map.groupBy(bodies.chains, keyOf);
  const sets = Map.groupBy(bodies.sets, keyOf);
  return bodies.tables.map((body): HostTable => {
    const key = keyOf(body);
    return {
      family: familyOf(body),
      name: textOfAttribute(attributesOf(body), NFTA_TABLE.NAME),
      chains: (chains.get(key) ?? []).map((chain) => {
        const attributes = attributesOf(chain);
        const name = textOfAttribute(attributes, NFTA_CHAIN.NAME);
        return { name, ...baseOf(attributes), rules: (rules.get(`${key} ${name}`) ?? []).map(hostRule) };
      }),
      sets: (sets.get(key) ?? []).map((set) => hostSet(attributesOf(set))),
    };
  });
}

function joinBases(bodies: readonly Buffer[]): readonly HostTable[] {
  const tables = new Map<string, HostTable & { readonly chains: HostChain[] }>();
  for (const body of bodies) {
    const attributes = attributesOf(body);
    if (attributes.get(NFTA_CHAIN.HOOK) === undefined) continue;
    const family = familyOf(body);
    const name = textOfAttribute(attributes, NFTA_CHAIN.TABLE);
    const table = tables.get(`${family} ${name}`) ?? { family, name, chains: [], sets: [] };
    table.chains.push({ name: textOfAttribute(attributes, NFTA_CHAIN.NAME), ...baseOf(attributes), rules: [] });
    tables.set(`${family} ${name}`, table);
  }
  return [...tables.values()];
}

/** Family and table; the table is the first attribute of every object. */
function keyOf(body: Buffer): string {
  return `${familyOf(body)} ${textOfAttribute(attributesOf(body), NFTA_TABLE.NAME)}`;
}

function baseOf(attributes: Attributes): Pick<HostChain, 'base'> {
  const hook = attributes.get(NFTA_CHAIN.HOOK);
  if (hook === undefined) return {};
  const parts = decodeAttributes(hook);
  const number = be32Of(parts.get(NFTA_HOOK.HOOKNUM));
  return {
    base: {
      type: textOfAttribute(attributes, NFTA_CHAIN.TYPE),
      hook: HOOKS[number] ?? String(number),
      priority: be32Of(parts.get(NFTA_HOOK.PRIORITY)) | 0,
      policy: be32Of(attributes.get(NFTA_CHAIN.POLICY)) === NF_ACCEPT ? 'accept' : 'drop',
    },
  };
}

function hostRule(body: Buffer): HostRule {
  const { comment, expressions } = decodeRule(body);
  return { ...(comment === '' ? {} : { comment }), expressions: decodeExpressions(expressions) };
}

function hostSet(attributes: Attributes): HostSet {
  const [flags, keyType, dataType] = [NFTA_SET.FLAGS, NFTA_SET.KEY_TYPE, NFTA_SET.DATA_TYPE].map((type) =>
    be32Of(attributes.get(type)),
  ) as [number, number, number];
  const name = textOfAttribute(attributes, NFTA_SET.NAME);
  return { name, keyType, flags, ...((flags & NFT_SET_MAP) === 0 ? {} : { dataType }) };
}

function decodeElement(attributes: Attributes, { keyType, dataType }: HostSet): HostElement {
  const [key, last, data] = [NFTA_SET_ELEM.KEY, NFTA_SET_ELEM.KEY_END, NFTA_SET_ELEM.DATA].map((type) =>
    attributes.get(type),
  );
  const isEnd = (be32Of(attributes.get(NFTA_SET_ELEM.FLAGS)) & NFT_SET_ELEM_INTERVAL_END) !== 0;
  const textOfKey = (payload: Buffer): string => valueText(keyType, decodeData(payload));
  return {
    // The element for everything that the others do not contain has none.
    key: key === undefined ? '*' : textOfKey(key),
    ...(isEnd ? { isEnd } : {}),
    ...(last === undefined ? {} : { last: textOfKey(last) }),
    ...(data === undefined ? {} : { value: valueText(dataType ?? 0, decodeData(data)) }),
  };
}

/** Returns a verdict, or what the digits mean by the type. */
function valueText(type: number, data: string): string {
  return /^([0-9a-f]{2})*$/.test(data) ? decodeKey(type, Buffer.from(data, 'hex')) : data;
}
