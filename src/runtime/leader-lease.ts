/**
 * One candidate's view of a lease in the datastore. At most one candidate holds the lease at a time. Time is counted on
 * monotonic clocks only.
 */
export interface LeaderLease {
  /** How long the lease lasts without being renewed, in milliseconds. */
  readonly durationMs: number;
  /**
   * Acquires or renews the lease. Reports whether this candidate holds it: then no other does until `durationMs` after
   * the start of this call. A lease that was lost is reported as not held once before it is acquired again. @throws store/*
   */
  readonly hold: (signal: AbortSignal) => Promise<boolean>;
  /** Releases the lease, so that another candidate can acquire it at once. Does nothing unless held. @throws store/* */
  readonly release: (signal: AbortSignal) => Promise<void>;
  /** Resolves when the lease may have become free; a lease that merely expires may go unnoticed. @throws store/* */
  readonly released: (signal: AbortSignal) => Promise<void>;
}
