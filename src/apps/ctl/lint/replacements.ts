import { isMap, isScalar, isSeq, type Node, type Pair, type YAMLMap } from 'yaml';
import type { Edit, Fix } from '../../../base/problem.ts';
import { positionOf, type Spot } from '../document-tree.ts';

/** Replaces the characters from `start` up to `end` (exclusive), counted without a byte order mark. */
export interface Replacement {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** A text to edit, and how to find the node of a path in it. */
export interface Edited {
  readonly text: string;
  readonly syntax: 'json' | 'yaml';
  readonly spotOf: (path: string) => Spot;
}

/**
 * Returns the replacements that apply a fix and keep comments, order, spaces and quotes. Undefined when an edit would
 * change more than that.
 */
export function replacementsFor(fix: Fix, edited: Edited): readonly Replacement[] | undefined {
  const replacements = fix.map((edit) => replacementFor(edit, edited));
  const found = replacements.filter((each) => each !== undefined);
  return found.length === replacements.length ? found : undefined;
}

/** Applies replacements, which must not overlap. */
export function replaceIn(text: string, replacements: readonly Replacement[]): string {
  let [changed, at] = ['', 0];
  for (const { start, end, text: by } of [...replacements].sort((a, b) => a.start - b.start)) {
    changed += text.slice(at, start) + by;
    at = end;
  }
  return changed + text.slice(at);
}

function replacementFor(edit: Edit, { text, syntax, spotOf }: Edited): Replacement | undefined {
  const spot = spotOf(edit.path);
  if (!spot.isThere) return undefined;
  if (edit.kind === 'set') return setValue(spot, edit.value, { text, syntax });
  if (spot.pair === undefined) return undefined;
  return edit.kind === 'rename' ? renameKey(spot.pair, edit.to, text) : removePair(spot.pair, text);
}

function renameKey({ of, is }: { of: YAMLMap; is: Pair }, to: string, text: string): Replacement | undefined {
  const range = positionOf(is.key);
  if (range === undefined || of.has(to)) return undefined;
  const [start, end] = range;
  return { start, end, text: inQuotesOf(text.slice(start, end), to) };
}

function setValue(
  { value }: Spot,
  to: string | number | boolean,
  { text, syntax }: Pick<Edited, 'text' | 'syntax'>,
): Replacement | undefined {
  const range = positionOf(value);
  if (range === undefined || !isInline(value)) return undefined;
  const [start, end] = range;
  if (typeof to !== 'string') return { start, end, text: String(to) };
  if (/^[A-Za-z]{4,}$/.test(to) && !/^(true|false|null)$/i.test(to)) {
    return { start, end, text: inQuotesOf(text.slice(start, end), to) };
  }
  const needsNoEscapes = syntax === 'yaml' && /^[^'\n]*$/.test(to);
  return { start, end, text: needsNoEscapes ? `'${to}'` : JSON.stringify(to) };
}

/** Removes the line of a pair that is alone in it; inside braces, the pair and one comma. */
function removePair({ of, is }: { of: YAMLMap; is: Pair }, text: string): Replacement | undefined {
  const [start, end] = [positionOf(is.key)?.[0], positionOf(is.value)?.[1]];
  if (start === undefined || end === undefined || !isInline(is.value) || of.items.length === 1) return undefined;
  if (of.flow === true) return removeFromBraces({ of, is, start, end }, text);
  const lineStart = text.lastIndexOf('\n', start - 1) + 1;
  const newline = text.indexOf('\n', end);
  const lineEnd = newline === -1 ? text.length : newline + 1;
  const around = text.slice(lineStart, start) + text.slice(end, lineEnd);
  return around.trim() === '' ? { start: lineStart, end: lineEnd, text: '' } : undefined;
}

function removeFromBraces(
  { of, is, start, end }: { of: YAMLMap; is: Pair; start: number; end: number },
  text: string,
): Replacement | undefined {
  const index = of.items.indexOf(is);
  const nextStart = positionOf(of.items[index + 1]?.key)?.[0];
  const previousEnd = positionOf(of.items[index - 1]?.value)?.[1];
  const [from, to, between] =
    nextStart === undefined ? [previousEnd, end, [previousEnd, start]] : [start, nextStart, [end, nextStart]];
  if (from === undefined) return undefined;
  return text
    .slice(...between)
    .replace(',', '')
    .trim() === ''
    ? { start: from, end: to, text: '' }
    : undefined;
}

/** Reports whether the value is a plain scalar or in brackets, without anchor or tag, so that lines stay in place. */
function isInline(value: unknown): value is Node {
  if (isScalar(value)) return value.anchor === undefined && value.tag === undefined && !isBlock(value.type);
  return (isMap(value) || isSeq(value)) && value.flow === true && value.anchor === undefined;
}

function isBlock(type: unknown): boolean {
  return type === 'BLOCK_LITERAL' || type === 'BLOCK_FOLDED';
}

function inQuotesOf(before: string, to: string): string {
  if (before.startsWith("'")) return `'${to}'`;
  return before.startsWith('"') ? JSON.stringify(to) : to;
}
