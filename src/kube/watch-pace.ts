import type { Random } from '../base/random.ts';

/** The API ends a watch by itself after that long, or up to twice that. */
const TIMEOUT_S = 300;

/**
 * End of a stream: the API ended it in time, the connection broke, or the API has forgotten its version and everything must
 * be listed. Jitter is larger for failures that affect all nodes at once.
 */
export type StreamEnd = 'ended' | 'broken' | 'forgotten';

const SPREAD_MS: Readonly<Record<StreamEnd, number>> = { ended: 100, broken: 1000, forgotten: 3000 };

/** Returns the lifetime that a watch asks for, in seconds. Nodes that start together do not renew their watches together. */
export function watchTimeoutS(random: Random): number {
  return TIMEOUT_S + random.int(TIMEOUT_S);
}

/** Returns how long a watch waits before it resumes, in milliseconds. */
export function resumeDelayMs(end: StreamEnd, random: Random): number {
  return 100 + random.int(SPREAD_MS[end]);
}
