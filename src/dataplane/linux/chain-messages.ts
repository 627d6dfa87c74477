/** Messages of nf_tables about single chains of other programs, in the families `ip` and `ip6`. Pure. */
import type { Family } from '../../net/address.ts';
import { type Message, NLM_F_DUMP, textAttribute } from './netlink.ts';
import { be64Attribute, message } from './nft-messages.ts';
import { FAMILY_NUMBERS, NFTA_CHAIN, NFTA_RULE } from './nft-numbers.ts';

/** A chain of a table of one IP family. */
export interface ChainPlace {
  readonly family: Family;
  readonly table: string;
  readonly chain: string;
}

/** Lists the rules of the chain. The kernel lists none when there is no such chain. */
export function dumpChainRules(place: ChainPlace): Message {
  return message('GETRULE', NLM_F_DUMP, placeAttributes(place), familyNumber(place));
}

export function deleteRule(place: ChainPlace, handle: bigint): Message {
  const attributes = [...placeAttributes(place), be64Attribute(NFTA_RULE.HANDLE, handle)];
  return message('DELRULE', 0, attributes, familyNumber(place));
}

/** Deletes the chain with its rules. The kernel refuses it as long as a rule leads to the chain. */
export function deleteWholeChain(place: ChainPlace): readonly Message[] {
  const { table, chain } = place;
  const named = [textAttribute(NFTA_CHAIN.TABLE, table), textAttribute(NFTA_CHAIN.NAME, chain)];
  return [
    message('DELRULE', 0, placeAttributes(place), familyNumber(place)),
    message('DELCHAIN', 0, named, familyNumber(place)),
  ];
}

function placeAttributes({ table, chain }: ChainPlace): readonly Buffer[] {
  return [textAttribute(NFTA_RULE.TABLE, table), textAttribute(NFTA_RULE.CHAIN, chain)];
}

function familyNumber({ family }: ChainPlace): number | undefined {
  return FAMILY_NUMBERS[family === 4 ? 'ip' : 'ip6'];
}
