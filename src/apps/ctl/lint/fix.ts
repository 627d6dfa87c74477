import { setImmediate as nextTurn } from 'node:timers/promises';
import { type DocumentSource, withoutByteOrderMark } from '../documents.ts';
import { lintSource } from './lint-source.ts';
import type { PlacedRemark } from './placed-remark.ts';
import { replaceIn, type Replacement } from './replacements.ts';

/** A safe change, and the remark that it resolves. */
export interface NetconfFix {
  readonly remark: PlacedRemark;
  readonly before: string;
  readonly after: string;
}

export interface Repaired {
  readonly source: DocumentSource;
  readonly repairs: readonly NetconfFix[];
  /** Remarks that remain. */
  readonly remarks: readonly PlacedRemark[];
}

/**
 * Makes every safe change. A change is safe when it leaves fewer remarks and causes no new one. Yields to the event
 * loop in between, so that `signal` can abort it.
 */
export async function repair(source: DocumentSource, signal: AbortSignal): Promise<Repaired> {
  let state: Repaired = { source, repairs: [], remarks: lintSource(source) };
  for (;;) {
    const better = await repairSome(state, apart(state.remarks), signal);
    if (better.repairs.length === state.repairs.length) return state;
    state = better;
  }
}

/** A remark with a change, and the range of the text that the change covers. */
interface Candidate {
  readonly remark: PlacedRemark;
  readonly replacements: readonly Replacement[];
  readonly start: number;
  readonly end: number;
}

/** Returns candidates whose ranges do not overlap, preferring earlier ones. */
function apart(remarks: readonly PlacedRemark[]): readonly Candidate[] {
  const candidates = remarks.flatMap((remark): Candidate[] => {
    const { replacements = [] } = remark;
    const start = Math.min(...replacements.map((each) => each.start));
    const end = Math.max(...replacements.map((each) => each.end));
    return replacements.length === 0 ? [] : [{ remark, replacements, start, end }];
  });
  let before = -1;
  return candidates
    .sort((a, b) => a.start - b.start)
    .filter(({ start, end }) => {
      const isApart = start > before;
      if (isApart) before = end;
      return isApart;
    });
}

/** Applies all candidates at once if that is safe. Otherwise bisects them, the later half first, to skip the unsafe ones. */
async function repairSome(state: Repaired, candidates: readonly Candidate[], signal: AbortSignal): Promise<Repaired> {
  await nextTurn();
  signal.throwIfAborted();
  const [first] = candidates;
  if (first === undefined) return state;
  if (candidates.length === 1) return repairOne(state, first.remark);
  const together = repairTogether(state, candidates);
  if (together !== undefined) return together;
  const middle = candidates.length >> 1;
  const later = await repairSome({ ...state, repairs: [] }, candidates.slice(middle), signal);
  const all = await repairSome({ ...later, repairs: state.repairs }, candidates.slice(0, middle), signal);
  return { ...all, repairs: [...all.repairs, ...later.repairs] };
}

function repairTogether(
  { source, repairs, remarks }: Repaired,
  candidates: readonly Candidate[],
): Repaired | undefined {
  const all = candidates.flatMap(({ replacements }) => replacements);
  const changed = { ...source, text: replaceBehindMark(source.text, all) };
  const left = lintSource(changed);
  const expected = countTexts(remarks);
  for (const { remark } of candidates) expected.set(textOf(remark), (expected.get(textOf(remark)) ?? 0) - 1);
  const isSafe = [...countTexts(left)].every(([text, count]) => count <= (expected.get(text) ?? 0));
  if (!isSafe) return undefined;
  return { source: changed, repairs: [...repairs, ...repairsOf(source, candidates)], remarks: left };
}

function countTexts(remarks: readonly PlacedRemark[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const remark of remarks) counts.set(textOf(remark), (counts.get(textOf(remark)) ?? 0) + 1);
  return counts;
}

/** Returns the changed lines of each candidate, including earlier changes in the same lines. */
function repairsOf({ text }: DocumentSource, candidates: readonly Candidate[]): readonly NetconfFix[] {
  const bare = withoutByteOrderMark(text);
  let firstInLine = 0;
  return candidates.map(({ remark, start, end }, index) => {
    const from = bare.lastIndexOf('\n', start - 1) + 1;
    while ((candidates[firstInLine]?.start ?? from) < from) firstInLine += 1;
    const lineEnd = bare.indexOf('\n', end);
    const to = lineEnd === -1 ? bare.length : lineEnd;
    const stretchAfter = (count: number): string => {
      const within = candidates.slice(firstInLine, count).filter((each) => each.end <= to);
      const moved = within.flatMap(({ replacements }) =>
        replacements.map((each) => ({ ...each, start: each.start - from, end: each.end - from })),
      );
      return replaceIn(bare.slice(from, to), moved);
    };
    return { remark, ...changedLines(stretchAfter(index), stretchAfter(index + 1)) };
  });
}

function repairOne(state: Repaired, remark: PlacedRemark): Repaired {
  const { source, repairs, remarks } = state;
  const settled = settle(source, remark, new Set(remarks.map(textOf)));
  if (settled === undefined || settled.remarks.length >= remarks.length) return state;
  const lines = changedLines(source.text, settled.source.text);
  return { ...settled, repairs: [...repairs, { remark, ...lines }] };
}

/** Applies a change and its follow-ups: a corrected key may reveal a misspelling below it. */
function settle(
  source: DocumentSource,
  { replacements }: PlacedRemark,
  known: ReadonlySet<string>,
): Pick<Repaired, 'source' | 'remarks'> | undefined {
  if (replacements === undefined) return undefined;
  const changed = { ...source, text: replaceBehindMark(source.text, replacements) };
  if (changed.text === source.text) return undefined;
  const remarks = lintSource(changed);
  const fresh = remarks.find((remark) => !known.has(textOf(remark)));
  return fresh === undefined ? { source: changed, remarks } : settle(changed, fresh, known);
}

function replaceBehindMark(text: string, replacements: readonly Replacement[]): string {
  const bare = withoutByteOrderMark(text);
  return text.slice(0, text.length - bare.length) + replaceIn(bare, replacements);
}

function textOf({ severity, problem: { path, message } }: PlacedRemark): string {
  return [severity, path, message].join('\n');
}

/** Returns the lines that differ, without common lines above and below. */
function changedLines(before: string, after: string): Pick<NetconfFix, 'before' | 'after'> {
  const [old, fresh] = [before.split('\n'), after.split('\n')];
  let top = 0;
  while (top < old.length && top < fresh.length && old[top] === fresh[top]) top += 1;
  let bottom = 0;
  const shortest = Math.min(old.length, fresh.length) - top;
  while (bottom < shortest && old.at(-1 - bottom) === fresh.at(-1 - bottom)) bottom += 1;
  const cut = (lines: readonly string[]): string => lines.slice(top, lines.length - bottom).join('\n');
  return { before: cut(old), after: cut(fresh) };
}
