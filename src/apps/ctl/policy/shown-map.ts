import type { PeerGroup } from '../../../policy/reach/group-peers.ts';
import type { ReachMap } from '../../../policy/reach/map-reach.ts';
import { describeTraffic } from '../../../policy/reach/traffic.ts';

const LETTERS = 26;
const ALL = '*';

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
  readonly cells: readonly ShownCell[];
  /** By sign, the most frequent first; `*` is all traffic. */
  readonly legend: Readonly<Record<string, string>>;
}

export function showMap({ groups, cells, whole }: ReachMap): ShownMap {
  const texts = cells.map(({ traffic, isPartial, ...place }) => {
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
    cells: texts.map(({ meaning, ...cell }) => ({ ...cell, sign: signs.get(meaning) ?? '?' })),
    legend: Object.fromEntries(
      [...signs].flatMap(([meaning, sign]) => (byMeaning.has(meaning) ? [[sign, meaning]] : [])),
    ),
  };
}

/** a to z, then aa, ab and so on. */
function letterAt(place: number): string {
  const last = String.fromCodePoint((place % LETTERS) + 97);
  return place < LETTERS ? last : `${letterAt(Math.floor(place / LETTERS) - 1)}${last}`;
}
