/** Processor time that one write to one client takes a server, and the share of it that writes may take: a quarter. */
const PERIOD_PER_CLIENT_MS = 0.08;
const SHORTEST_MS = 20;
const LONGEST_MS = 500;

/** Returns how often a server writes to its clients at most: more rarely the more they are. */
export function flushPeriodMs(clients: number): number {
  return Math.min(LONGEST_MS, Math.max(SHORTEST_MS, clients * PERIOD_PER_CLIENT_MS));
}

/** Returns how long a change waits: the first after a quiet period is sent at once. */
export function untilFlushMs(lastMs: number, nowMs: number, clients: number): number {
  return Math.max(0, lastMs + flushPeriodMs(clients) - nowMs);
}
