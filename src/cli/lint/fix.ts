import { type Source, withoutByteOrderMark } from '../documents.ts';
import { lintSource } from './lint-source.ts';
import type { PlacedRemark } from './remark.ts';
import { replaceIn, type Replacement } from './replacements.ts';

/** A change that was found to be safe, and the remark that asked for it. */
export interface Repair {
  readonly remark: PlacedRemark;
  readonly before: string;
  readonly after: string;
}

export interface Repaired {
  readonly source: Source;
  readonly repairs: readonly Repair[];
  /** What is still to be said about the text. */
  readonly remarks: readonly PlacedRemark[];
}

/**
 * Makes every change that is safe, one after the other, each on the text that the one before has left. A change is kept
 * only when less is to be said about the text afterwards, and nothing new.
 */
export function repair(source: Source): Repaired {
  let state: Repaired = { source, repairs: [], remarks: lintSource(source) };
  for (let next = nextRepair(state); next !== undefined; next = nextRepair(state)) state = next;
  return state;
}

function nextRepair({ source, repairs, remarks }: Repaired): Repaired | undefined {
  for (const remark of remarks) {
    const settled = settle(source, remark, new Set(remarks.map(textOf)));
    if (settled === undefined || settled.remarks.length >= remarks.length) continue;
    const lines = changedLines(source.text, settled.source.text);
    return { ...settled, repairs: [...repairs, { remark, ...lines }] };
  }
  return undefined;
}

/** Makes the change, and those that go with it: a key with its right name may let a slip below it be seen. */
function settle(
  source: Source,
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

/** The lines that differ, without what is the same above and below. */
function changedLines(before: string, after: string): Pick<Repair, 'before' | 'after'> {
  const [old, fresh] = [before.split('\n'), after.split('\n')];
  let top = 0;
  while (top < old.length && top < fresh.length && old[top] === fresh[top]) top += 1;
  let bottom = 0;
  const shortest = Math.min(old.length, fresh.length) - top;
  while (bottom < shortest && old.at(-1 - bottom) === fresh.at(-1 - bottom)) bottom += 1;
  const cut = (lines: readonly string[]): string => lines.slice(top, lines.length - bottom).join('\n');
  return { before: cut(old), after: cut(fresh) };
}
