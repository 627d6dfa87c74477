import type { Clock } from '../../base/clock.ts';

export interface IdleTimeoutPorts {
  readonly clock: Clock;
  /** Reports whether an agent has appeared since the server was started. */
  readonly hasAgent: () => boolean;
}

/** Time for which a server of standalone calls stays. */
export interface IdleTimeoutLimits {
  /** After the last call. */
  readonly idleMs: number;
  /** In all, also while calls come in. */
  readonly totalMs: number;
}

export const IDLE_TIMEOUT_LIMITS: IdleTimeoutLimits = { idleMs: 5000, totalMs: 60_000 };
const PERIOD_MS = 50;

/** Decides how long a server of standalone calls stays. */
export class IdleTimeout {
  readonly #ports: IdleTimeoutPorts;
  readonly #limits: IdleTimeoutLimits;
  readonly #startedMs: number;
  #lastMs: number;
  #inFlight = 0;

  constructor(ports: IdleTimeoutPorts, limits: IdleTimeoutLimits = IDLE_TIMEOUT_LIMITS) {
    this.#ports = ports;
    this.#limits = limits;
    this.#startedMs = ports.clock.monotonic();
    this.#lastMs = this.#startedMs;
  }

  /** Sets the number of calls in flight. Called whenever it changes. */
  readonly setInFlight = (inFlight: number): void => {
    this.#inFlight = inFlight;
    this.#lastMs = this.#ports.clock.monotonic();
  };

  /** Resolves when the server must leave: idle, for too long, because an agent has appeared, or when the signal aborts. */
  async ended(signal: AbortSignal): Promise<void> {
    const { clock, hasAgent } = this.#ports;
    while (!signal.aborted && !this.#isOver(clock.monotonic()) && !hasAgent()) {
      await clock.sleep(PERIOD_MS, signal).catch(() => undefined);
    }
  }

  #isOver(nowMs: number): boolean {
    const { idleMs, totalMs } = this.#limits;
    return nowMs - this.#startedMs >= totalMs || (this.#inFlight === 0 && nowMs - this.#lastMs >= idleMs);
  }
}
