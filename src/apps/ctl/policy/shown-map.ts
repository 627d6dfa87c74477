import type { PeerGroup } from '../../../policy/reach/group-peers.ts';
import type { ReachMap } from '../../../policy/reach/map-reach.ts';
import { describeTraffic } from '../../../policy/reach/traffic.ts';

const LETTERS = 26;
const ALL = '*';
/** Sign and meaning of a pair of which the map knows nothing. */
export const NOT_KNOWN = ['-', 'not considered: this map asks no policy about it'] as const;

export interface ShownCell {
  /** Places in `groups`. */
  readonly from: number;
  readonly to: number;
  /** Example: `TCP 80, 443`. */
  readonly traffic: string;
  /** Only some of the ends of the groups, or only one IP family. */
  readonly isPartial: boolean;
  /** Its sign in tables: a key of `legend`. */
  readonly sign: string;
}

/** A map for people: what groups may exchange, as signs with a legend. */
export interface ShownMap {
  readonly groups: readonly PeerGroup[];
  /** Only those with traffic. */
  readonly cells: readonly ShownCell[];
  /** Pairs of groups, by their places, that were not considered. What is neither here nor a cell is denied. */
  readonly notConsidered: readonly { readonly from: number; readonly to: number }[];
  /** By sign, the most frequent first; `*` is all traffic. */
  readonly legend: Readonly<Record<string, string>>;
}

export function showMap({ groups, cells, whole }: ReachMap): ShownMap {
  const open = cells.filter(({ traffic }) => traffic.length > 0);
  const known = new Set(cells.map(({ from, to }) => pairKey(from, to)));
  const texts = open.map(({ traffic, isPartial, ...place }) => {
    const text = describeTraffic(traffic, whole);
    return { ...place, traffic: text, isPartial, meaning: isPartial ? `${text}, for some of them` : text };
  });
  const byMeaning = Map.groupBy(texts, ({ meaning }) => meaning);
  const others = [...byMeaning]
    .filter(([meaning]) => meaning !== 'all traffic')
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .toSorted(([, left], [, right]) => right.length - left.length);
  const signs = new Map([
    ['all traffic', ALL],
    ...others.map(([meaning], place) => [meaning, letterAt(place)] as const),
  ]);
  return {
    groups,
    notConsidered: groups.flatMap((_from, from) =>
      groups.flatMap((_to, to) => (known.has(pairKey(from, to)) ? [] : [{ from, to }])),
    ),
    cells: texts.map(({ meaning, ...cell }) => ({ ...cell, sign: signs.get(meaning) ?? '?' })),
    legend: Object.fromEntries(
      [...signs].flatMap(([meaning, sign]) => (byMeaning.has(meaning) ? [[sign, meaning]] : [])),
    ),
  };
}

export function pairKey(from: number, to: number): string {
  return `${String(from)} ${String(to)}`;
}

/** a to z, then aa, ab and so on. */
function letterAt(place: number): string {
  const last = String.fromCodePoint((place % LETTERS) + 97);
  return place < LETTERS ? last : `${letterAt(Math.floor(place / LETTERS) - 1)}${last}`;
}
