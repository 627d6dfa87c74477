/** One file of a bug report. */
export interface DiagsItem {
  /** Path in the archive; ends in `.json` for documents. */
  readonly path: string;
  /** Returns the text of the file. Rejects when it is unavailable; the manifest then lists the reason. */
  readonly gather: (signal: AbortSignal) => Promise<string>;
}
