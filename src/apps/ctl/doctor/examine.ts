import { timeLimit } from '../../../base/clock.ts';
import { untilAborted } from '../../../base/until-aborted.ts';
import { isNetplugError, reasonOf } from '../../../base/errors.ts';
import { isStoreFailure, type Sources } from './sources.ts';
import type { Finding } from '../../../checks/check.ts';
import type { Examination, Topic } from './topic.ts';
import { UNEXAMINED, unexaminedId } from './topics.ts';

/** Timeout of one topic; a topic that times out does not delay the report on the rest. */
const TOPIC_MS = 12_000;

export interface Examined extends Examination {
  readonly area: string;
}

export interface LeftOut {
  readonly area: string;
  readonly why: string;
}

export interface Diagnosis {
  readonly examined: readonly Examined[];
  readonly leftOut: readonly LeftOut[];
}

/** Examines all topics concurrently. A topic that fails yields a finding about it. */
export async function examineAll(topics: readonly Topic[], sources: Sources): Promise<Diagnosis> {
  const outcomes = await Promise.all(topics.map(async (topic) => examineOne(topic, sources)));
  return {
    examined: outcomes.filter((outcome) => 'findings' in outcome),
    leftOut: outcomes.filter((outcome) => 'why' in outcome),
  };
}

async function examineOne(topic: Topic, sources: Sources): Promise<Examined | LeftOut> {
  const { area, needsRecords } = topic;
  using limit = timeLimit(TOPIC_MS, () => new Error(`timed out after ${String(TOPIC_MS / 1000)} s`));
  const signal = AbortSignal.any([sources.context.signal, limit.signal]);
  try {
    if (needsRecords) await untilAborted(sources.records(), signal);
    return { area, ...(await untilAborted(topic.examine(sources, signal), signal)) };
  } catch (cause) {
    if (needsRecords && isNetplugError(cause, 'store/refused'))
      return { area, why: 'the caller may not list the records' };
    if (needsRecords && isStoreFailure(cause)) return { area, why: 'the datastore cannot be used' };
    return { area, measured: [], findings: [unexamined(area, cause)] };
  }
}

function unexamined(area: string, cause: unknown): Finding {
  return {
    id: unexaminedId(area),
    ...UNEXAMINED,
    found: reasonOf(cause),
    remedy: 'Correct what the message names, and run the command again',
  };
}
