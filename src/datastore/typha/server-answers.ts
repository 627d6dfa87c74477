/** An older state is accepted when every server has had one for that long: the datastore was restored. */
const RESTORED_MS = 30_000;

/** Why servers that answered were not followed, round by round: each asks all servers. */
export class ServerAnswers {
  readonly #round = { behind: 0, other: 0 };
  /** From the first to the last round in which every server that answered had an older state than was seen. */
  #behind: { readonly sinceMs: number; readonly untilMs: number } | undefined;

  add({ isBehind }: { readonly isBehind: boolean }): void {
    this.#round[isBehind ? 'behind' : 'other'] += 1;
  }

  /** A server is followed that has no older state. */
  forget(): void {
    Object.assign(this.#round, { behind: 0, other: 0 });
    this.#behind = undefined;
  }

  /** Ends a round. Returns whether a server has answered. */
  endRound(nowMs: number): boolean {
    const { behind, other } = this.#round;
    Object.assign(this.#round, { behind: 0, other: 0 });
    if (other > 0) this.#behind = undefined;
    else if (behind > 0) this.#behind = { sinceMs: this.#sinceMs(nowMs) ?? nowMs, untilMs: nowMs };
    return behind + other > 0;
  }

  /** Reports whether all servers have had an older state for so long that it is accepted. */
  areRestored(nowMs: number): boolean {
    return nowMs - (this.#sinceMs(nowMs) ?? nowMs) >= RESTORED_MS;
  }

  /** Returns since when all have had one; undefined when the last round that found that is long ago. */
  #sinceMs(nowMs: number): number | undefined {
    return this.#behind !== undefined && nowMs - this.#behind.untilMs < RESTORED_MS ? this.#behind.sinceMs : undefined;
  }
}
