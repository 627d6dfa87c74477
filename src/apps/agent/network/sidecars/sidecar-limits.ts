/** Messages of one second: a sidecar sends at most one for each generation, and a few beside. */
const MOST_MESSAGES = 50;
/** Between two connections. One that lasted doubles nothing. */
const FIRST_MS = 500;
const MOST_MS = 30_000;
const LASTING_MS = 10_000;

/** What the processes of one pod may ask of the agent, over all their connections: each of them can say it is the sidecar. */
export class SidecarLimits {
  #second = Number.NEGATIVE_INFINITY;
  #messages = 0;
  #beganMs = Number.NEGATIVE_INFINITY;
  #pauseMs = 0;
  #endedMs = Number.NEGATIVE_INFINITY;

  /** Whether another connection may begin. */
  mayBegin(nowMs: number): boolean {
    return nowMs - this.#endedMs >= this.#pauseMs;
  }

  began(nowMs: number): void {
    this.#beganMs = nowMs;
  }

  ended(nowMs: number): void {
    const isShort = nowMs - this.#beganMs < LASTING_MS;
    this.#pauseMs = isShort ? Math.min(MOST_MS, Math.max(FIRST_MS, 2 * this.#pauseMs)) : FIRST_MS;
    this.#endedMs = nowMs;
  }

  /** Counts a message, and returns whether it may be taken. */
  count(nowMs: number): boolean {
    const second = Math.floor(nowMs / 1000);
    this.#messages = second === this.#second ? this.#messages + 1 : 1;
    this.#second = second;
    return this.#messages <= MOST_MESSAGES;
  }
}
