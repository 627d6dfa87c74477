/** Counts for how long something was observed without a gap: keys that are in the listing of every pass. */
export class LeakCandidates {
  readonly #observed = new Map<string, { readonly sinceMs: number; readonly lastMs: number }>();

  /**
   * Takes the keys of one pass, at a time of the monotonic clock. Keys that are missing are forgotten. A key that was last
   * observed longer ago than `gapMs` starts again: the address may have been in use in between. Returns the keys that are new.
   */
  observe(keys: Iterable<string>, { nowMs, gapMs }: { readonly nowMs: number; readonly gapMs: number }): Set<string> {
    const before = new Map(this.#observed);
    const fresh = new Set<string>();
    this.#observed.clear();
    for (const key of keys) {
      const known = before.get(key);
      const isKnown = known !== undefined && nowMs - known.lastMs <= gapMs;
      if (!isKnown) fresh.add(key);
      this.#observed.set(key, { sinceMs: isKnown ? known.sinceMs : nowMs, lastMs: nowMs });
    }
    return fresh;
  }

  /** Reports whether the key has been observed for at least so long. */
  isDue(key: string, { nowMs, graceMs }: { readonly nowMs: number; readonly graceMs: number }): boolean {
    const known = this.#observed.get(key);
    return known !== undefined && nowMs - known.sinceMs >= graceMs;
  }
}
