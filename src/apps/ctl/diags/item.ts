/** One thing that a bug report needs. */
export interface DiagsItem {
  /** In the archive; `.json` for documents. */
  readonly path: string;
  /** Rejects when it cannot be had, which is noted instead. */
  readonly gather: (signal: AbortSignal) => Promise<string>;
}
