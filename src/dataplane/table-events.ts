/** A transaction of another program that changed tables of the packet filter. */
export interface TableChange {
  /** Names of the tables; `unknown` after the kernel dropped messages. */
  readonly tables: readonly string[] | 'unknown';
  /** Whether it changed chains or rules of other tables. */
  readonly hasChangedOthers?: boolean;
  /** How the program calls itself, at most 15 bytes of any text; undefined when the kernel has not said it. */
  readonly program: string | undefined;
}

/** What the kernel reports about changes of the packet filter. */
export interface TableEvents {
  /**
   * Calls back for each transaction that changes or removes one of the `inet` tables, or chains or rules of others, unless this
   * process has made it.
   * @throws kernel/failed
   */
  watch(tables: readonly string[], onChange: (change: TableChange) => void): Disposable;
}
