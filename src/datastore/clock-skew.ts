const HEADER_STEP_MS = 1000;

/** Times when a request was sent and its answer arrived, by the clock of the caller in milliseconds since the epoch. */
export interface Exchange {
  readonly sentMs: number;
  readonly receivedMs: number;
  /** The header `date` of the response, in whole seconds. */
  readonly date: string | undefined;
}

/**
 * Returns the least skew that explains the exchange, in milliseconds, positive when the caller's clock is ahead;
 * undefined without a readable header. An exchange that takes long, on a busy machine, does not add to it.
 */
export function clockSkewMs({ sentMs, receivedMs, date }: Exchange): number | undefined {
  const earliestMs = date === undefined ? Number.NaN : Date.parse(date);
  if (Number.isNaN(earliestMs)) return undefined;
  const latestMs = earliestMs + HEADER_STEP_MS;
  if (sentMs > latestMs) return sentMs - latestMs;
  return receivedMs < earliestMs ? receivedMs - earliestMs : 0;
}
