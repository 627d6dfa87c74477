import { getOrInsert } from '../../base/get-or-insert.ts';
import { isMap, isScalar, isSeq, type LineCounter, type Node, type Pair, type Range, type YAMLMap } from 'yaml';

/** A range of a text. Lines and columns count from 1; the end is exclusive. */
export interface Region {
  readonly line: number;
  readonly column: number;
  readonly endLine: number;
  readonly endColumn: number;
}

/** The start of a text. */
export const START: Region = { line: 1, column: 1, endLine: 1, endColumn: 1 };

/** Target of a path: a pair of a map, or an item of a list. When `isThere` is false, it is the nearest ancestor. */
export interface Spot {
  readonly isThere: boolean;
  /** The map with the pair, when the last step was a key. */
  readonly pair: { readonly of: YAMLMap; readonly is: Pair } | undefined;
  readonly value: Node | null;
}

/** Returns a function that follows a path from `root` as far as it exists. The last of repeated keys counts. */
export function spotFinder(root: Node | null): (keys: readonly (string | number)[]) => Spot {
  const pairs = new Map<YAMLMap, ReadonlyMap<string | number, Pair>>();
  return (keys) => {
    let spot: Spot = { isThere: true, pair: undefined, value: root };
    for (const key of keys) {
      const { value } = spot;
      if (isMap(value)) {
        const is = getOrInsert(pairs, value, pairsByName).get(key);
        if (is === undefined) return { ...spot, isThere: false };
        spot = { isThere: true, pair: { of: value, is }, value: asNode(is.value) };
      } else if (isSeq(value) && typeof key === 'number' && key < value.items.length) {
        spot = { isThere: true, pair: undefined, value: asNode(value.items[key]) };
      } else {
        return { ...spot, isThere: false };
      }
    }
    return spot;
  };
}

function pairsByName({ items }: YAMLMap): ReadonlyMap<string | number, Pair> {
  return new Map(items.flatMap((pair) => (isScalar(pair.key) ? [[String(pair.key.value), pair]] : [])));
}

/** Returns the range of the key or item; of a list or object, only its start. */
export function rangeOfSpot({ pair, value }: Spot): readonly [number, number] {
  const [start = 0, end = start] = positionOf(pair?.is.key) ?? positionOf(value) ?? [];
  return pair === undefined && !isScalar(value) ? [start, start] : [start, end];
}

export function positionOf(node: unknown): Range | undefined {
  return asNode(node)?.range ?? undefined;
}

export function regionOf(lines: LineCounter, [start, end]: readonly [number, number]): Region {
  const [from, to] = [lines.linePos(start), lines.linePos(end)];
  const line = Math.max(1, from.line);
  const column = Math.max(1, from.col);
  return { line, column, endLine: Math.max(line, to.line), endColumn: end === start ? column : Math.max(1, to.col) };
}

/** Returns repeated keys at any depth, without the last of each. */
export function repeatedKeys(
  root: Node | null,
): readonly { readonly name: string; readonly range: readonly [number, number] }[] {
  if (isSeq(root)) return root.items.flatMap((item) => repeatedKeys(asNode(item)));
  if (!isMap(root)) return [];
  const last = new Map(root.items.map((pair) => [nameOf(pair), pair]));
  return root.items.flatMap((pair) => [
    ...(last.get(nameOf(pair)) === pair ? [] : [{ name: String(nameOf(pair)), range: rangeOfKey(pair) }]),
    ...repeatedKeys(asNode(pair.value)),
  ]);
}

/** Returns the ranges of keys that are lists or objects, which only YAML allows. */
export function collectionKeys(root: Node | null): readonly (readonly [number, number])[] {
  if (isSeq(root)) return root.items.flatMap((item) => collectionKeys(asNode(item)));
  if (!isMap(root)) return [];
  return root.items.flatMap((pair) => [
    ...(isMap(pair.key) || isSeq(pair.key) ? [rangeOfKey(pair)] : []),
    ...collectionKeys(asNode(pair.value)),
  ]);
}

function rangeOfKey({ key }: Pair): readonly [number, number] {
  const [start = 0, end = start] = positionOf(key) ?? [];
  return [start, end];
}

function nameOf({ key }: Pair): unknown {
  return isScalar(key) ? key.value : key;
}

function asNode(value: unknown): Node | null {
  return isMap(value) || isSeq(value) || isScalar(value) ? value : null;
}
