import { tryParseAddress } from '../net/address.ts';
import { formatCidr, tryReadRange } from '../net/cidr.ts';
import { floatingMaps } from './nat-floating.ts';
import type { NatInput } from './nat-table.ts';

/** Of a node whose kernel lets no flows end; what is older is forgotten. */
const MOST_ENTRIES = 4096;

/** Whose flows a node translates, as canonical texts. */
export interface TranslationRecord {
  /** `ADDRESS POD` for each floating address; several of one address while it changes. */
  readonly floating: ReadonlySet<string>;
  /** The networks of pools with `natOutgoing`. */
  readonly natPools: ReadonlySet<string>;
  /** Flows that were translated before the last change may be there still. */
  readonly isUnfinished: boolean;
}

/** What makes flows stale, as canonical texts. */
export interface TranslationChange {
  /** Floating addresses that came or went, or lead to another pod. */
  readonly floating: ReadonlySet<string>;
  /** Addresses of pods that came or went with them. */
  readonly pods: ReadonlySet<string>;
  /** Networks of pools of which `natOutgoing` was switched off. */
  readonly lostPools: ReadonlySet<string>;
  /** Flows of any address may be stale. */
  readonly isOfAll: boolean;
}

export const NO_CHANGE: TranslationChange = {
  floating: new Set(),
  pods: new Set(),
  lostPools: new Set(),
  isOfAll: false,
};

/** Returns what the table of translation of the input translates. */
export function translationsOf({ floating, natPools }: Pick<NatInput, 'floating' | 'natPools'>): TranslationRecord {
  return {
    floating: new Set(Array.from(floatingMaps(floating).inside, (pair) => pair.join(' '))),
    natPools: new Set(natPools.map(formatCidr)),
    isUnfinished: false,
  };
}

/** Returns a record of both, which stands until no flow of the first one is left. */
export function bothTranslations(a: TranslationRecord, b: TranslationRecord): TranslationRecord {
  return {
    floating: newest(a.floating, b.floating),
    natPools: newest(a.natPools, b.natPools),
    isUnfinished: true,
  };
}

export function translationChange(before: TranslationRecord, after: TranslationRecord): TranslationChange {
  const pairs = [...before.floating.symmetricDifference(after.floating)].map((pair) => pair.split(' '));
  const side = (at: 0 | 1): ReadonlySet<string> => new Set(pairs.map((pair) => pair[at] ?? ''));
  return {
    floating: side(0),
    pods: side(1),
    lostPools: before.natPools.difference(after.natPools),
    isOfAll: before.isUnfinished || before.natPools.symmetricDifference(after.natPools).size > 0,
  };
}

export function bothChanges(a: TranslationChange, b: TranslationChange): TranslationChange {
  return {
    floating: newest(a.floating, b.floating),
    pods: newest(a.pods, b.pods),
    lostPools: newest(a.lostPools, b.lostPools),
    isOfAll: a.isOfAll || b.isOfAll,
  };
}

/** Reports whether no flow is stale. */
export function isNoChange({ floating, pods, lostPools, isOfAll }: TranslationChange): boolean {
  return floating.size + pods.size + lostPools.size === 0 && !isOfAll;
}

/** Writes the record as text, a line each. */
export function formatTranslations({ floating, natPools, isUnfinished }: TranslationRecord): string {
  const lines = [
    ...[...floating].map((pair) => `floating ${pair}`),
    ...[...natPools].map((pool) => `pool ${pool}`),
    ...(isUnfinished ? ['unfinished'] : []),
  ];
  return lines
    .toSorted()
    .map((line) => `${line}\n`)
    .join('');
}

/** Reads such a text, and skips lines that are none of it. */
export function readTranslations(text: string): TranslationRecord {
  const lines = text.split('\n').map((line) => line.split(' '));
  const isAddress = (word: string | undefined): boolean => word !== undefined && tryParseAddress(word) !== undefined;
  const floating = lines.flatMap(([kind, external, internal]) =>
    kind === 'floating' && isAddress(external) && isAddress(internal)
      ? [`${String(external)} ${String(internal)}`]
      : [],
  );
  const natPools = lines.flatMap(([kind, range = '']) =>
    kind === 'pool' && tryReadRange(range) !== undefined ? [range] : [],
  );
  return {
    floating: new Set(floating),
    natPools: new Set(natPools),
    isUnfinished: lines.some(([kind]) => kind === 'unfinished'),
  };
}

function newest(a: ReadonlySet<string>, b: ReadonlySet<string>): ReadonlySet<string> {
  return new Set([...a.difference(b), ...b].slice(-MOST_ENTRIES));
}
