import { deletedRecord, type FollowedRecord } from '../follow.ts';
import type { RecordLine } from './follow-frames.ts';
import { readRecordText } from './record-text.ts';
import type { FollowTopic } from './topics.ts';
import { sha256Of } from '../../base/sha256.ts';

/** A record as it came: what it is now, and a hash of its text, so that the same text is not read again. */
interface CopiedRecord {
  readonly hash: string;
  /** Undefined for a text in which this release sees no record. */
  readonly record: FollowedRecord | undefined;
}

/** The records of a topic, as they have come from a server. */
export type TopicCopy = Map<string, CopiedRecord>;

/** A change of a record of a topic. */
export interface CopyChange {
  readonly before: FollowedRecord | undefined;
  readonly after: FollowedRecord | undefined;
}

/**
 * Applies lines. A record of the same text is taken from `known`, and is no change.
 * @throws stream/protocol before anything is applied: what was, no follower would be told of
 */
export function applyLines(
  copy: TopicCopy,
  lines: readonly RecordLine[],
  { topic, known }: { readonly topic: FollowTopic; readonly known: TopicCopy },
): readonly CopyChange[] {
  const read = lines.map(({ key, text }) => {
    if (text === undefined) return { key, after: undefined };
    const hash = sha256Of(text);
    const same = known.get(key);
    return { key, after: same?.hash === hash ? same : { hash, record: readRecordText(topic, { key, text }) } };
  });
  return read.flatMap(({ key, after }) => {
    const before = copy.get(key);
    if (after === undefined) copy.delete(key);
    else copy.set(key, after);
    return changeBetween(before, after);
  });
}

/** Returns what turns one copy into the other. */
export function copyDifferences(before: TopicCopy, after: TopicCopy): readonly CopyChange[] {
  const deleted = [...before].flatMap(([key, record]) => (after.has(key) ? [] : changeBetween(record, undefined)));
  return [...deleted, ...[...after].flatMap(([key, record]) => changeBetween(before.get(key), record))];
}

/** Returns the change for a follower that has only some of the records of a topic; undefined when it has none of it. */
export function changeFor(
  { before, after }: CopyChange,
  isIncluded: (record: FollowedRecord) => boolean,
): FollowedRecord | undefined {
  if (after !== undefined && isIncluded(after)) return after;
  return before !== undefined && isIncluded(before) ? deletedRecord(before) : undefined;
}

function changeBetween(before: CopiedRecord | undefined, after: CopiedRecord | undefined): readonly CopyChange[] {
  if (before?.hash === after?.hash) return [];
  return before?.record === undefined && after?.record === undefined
    ? []
    : [{ before: before?.record, after: after?.record }];
}
