import type { Random } from '../base/random.ts';

/** The API ends a watch by itself after that long, or up to twice that. */
const TIMEOUT_S = 300;

/**
 * End of a stream: the API ended it in time, the connection broke, or the API has forgotten its version and everything must
 * be listed. Jitter is larger for failures that affect all nodes at once.
 */
export type StreamEnd = 'ended' | 'broken' | 'forgotten';

const SPREAD_MS: Readonly<Record<StreamEnd, number>> = { ended: 100, broken: 1000, forgotten: 3000 };
/** Where there are many objects there are many nodes, each of which lists all of them. */
const LIST_SPREAD = { perObjectMs: 5, mostMs: 30_000 };

/** Returns the lifetime that a watch asks for, in seconds. Nodes that start together do not renew their watches together. */
export function watchTimeoutS(random: Random): number {
  return TIMEOUT_S + random.int(TIMEOUT_S);
}

/** Returns how long a watch waits before it resumes, in milliseconds. `objects` is how many it lists again. */
export function resumeDelayMs(end: StreamEnd, random: Random, objects = 0): number {
  const forListMs = Math.min(objects * LIST_SPREAD.perObjectMs, LIST_SPREAD.mostMs);
  return 100 + random.int(Math.max(SPREAD_MS[end], end === 'forgotten' ? forListMs : 0));
}
