import * as v from 'valibot';
import type { NodeName } from '../../model/names.ts';

/** Facts that the index of borrowers has of one node and one block. */
export interface BorrowedRecord {
  /** The owner of the block; undefined when it has none. */
  readonly owner: NodeName | undefined;
  /** The ordinals of the addresses that the node holds, lowest first. */
  readonly ordinals: readonly number[];
}

const record = v.looseObject({
  owner: v.optional(v.pipe(v.string(), v.minLength(1))),
  ordinals: v.array(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535))),
});

export function encodeBorrowed({ owner, ordinals }: BorrowedRecord): string {
  return JSON.stringify({ owner, ordinals });
}

/** Undefined for a record that netplug did not write. */
export function decodeBorrowed(text: string): BorrowedRecord | undefined {
  const read = v.safeParse(v.pipe(v.string(), v.parseJson(), record), text);
  if (!read.success) return undefined;
  // Only netplug writes these records, and only with node names.
  return { owner: read.output.owner as NodeName | undefined, ordinals: read.output.ordinals };
}
