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

  /** Ends a round. Returns whether a server has answered, and whether all have had an older state for so long that it is accepted. */
  endRound(nowMs: number): { readonly isAnswered: boolean; readonly isRestored: boolean } {
    const { behind, other } = this.#round;
    Object.assign(this.#round, { behind: 0, other: 0 });
    const isAnswered = behind + other > 0;
    if (other > 0) this.#behind = undefined;
    if (other > 0 || !isAnswered) return { isAnswered, isRestored: false };
    const before = this.#behind;
    const isOn = before !== undefined && nowMs - before.untilMs < RESTORED_MS;
    this.#behind = { sinceMs: isOn ? before.sinceMs : nowMs, untilMs: nowMs };
    return { isAnswered, isRestored: nowMs - this.#behind.sinceMs >= RESTORED_MS };
  }
}
