/** Identifies a lease and one candidate for it. */
export interface LeaseOptions {
  /** The namespace of the Lease object. */
  readonly namespace: string;
  readonly name: string;
  /** Different for each process. */
  readonly holder: string;
  /** In whole seconds. */
  readonly durationMs: number;
}

/** One candidate's view of a lease in the datastore, which at most one candidate holds at a time. */
export interface LeaderLease {
  /** Time for which the lease lasts without being renewed, in milliseconds of the monotonic clock. */
  readonly durationMs: number;
  /**
   * Acquires or renews the lease. Reports whether this candidate holds it; if so, no other candidate can acquire it until
   * `durationMs` after the start of this call. Returns false once after the lease was lost, before it can be acquired
   * again. @throws store/*
   */
  readonly hold: (signal: AbortSignal) => Promise<boolean>;
  /** Releases the lease, so that another candidate can acquire it at once. Does nothing unless held. @throws store/* */
  readonly release: (signal: AbortSignal) => Promise<void>;
  /** Resolves when the lease may have become free. May not resolve when the lease only expires. @throws store/* */
  readonly released: (signal: AbortSignal) => Promise<void>;
}

/** A lease whose holder others can read. */
export interface NamedLease extends LeaderLease {
  /** Returns the identity of the last holder, also of one that has ended: empty when the lease is free, undefined when there is none. @throws store/* */
  readonly findHolder: (signal: AbortSignal) => Promise<string | undefined>;
}
