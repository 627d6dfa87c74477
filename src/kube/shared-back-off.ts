import { backOffMs, type RetryPorts, withJitter } from '../base/back-off.ts';

const BACK_OFF = { firstMs: 100, maxMs: 5000 };
/** The longest that a `Retry-After` counts for. A server that asks for a day must not silence a node for a day. */
const LONGEST_ASKED_MS = 30_000;

/**
 * How long the watches of one API leave it alone after it did not serve one of them. Trouble that several meet at the
 * same moment counts once, and all of them rest. A time that the API asks for concerns the flow it was asked of. Each
 * watch comes back a random part later, so that they do not come all at once.
 */
export class SharedBackOff {
  readonly #ports: RetryPorts;
  #failures = 0;
  /** On the monotonic clock. */
  #restsUntil = Number.NEGATIVE_INFINITY;
  readonly #flowRestsUntil = new Map<string, number>();

  constructor(ports: RetryPorts) {
    this.#ports = ports;
  }

  /** Returns the milliseconds until the API is to be asked again by the flow. */
  restMs(flow: string): number {
    const until = Math.max(this.#restsUntil, this.#flowRestsUntil.get(flow) ?? Number.NEGATIVE_INFINITY);
    return Math.max(0, until - this.#ports.clock.monotonic());
  }

  /** Notes that the API did not serve the flow; `waitMs` is what it asked for itself. */
  refused(flow: string, waitMs: number | undefined): void {
    const now = this.#ports.clock.monotonic();
    if (waitMs !== undefined) {
      this.#flowRestsUntil.set(flow, now + Math.min(waitMs, LONGEST_ASKED_MS));
      return;
    }
    if (this.#restsUntil > now) return;
    this.#failures += 1;
    this.#restsUntil = now + backOffMs(BACK_OFF, { failures: this.#failures }, this.#ports.random);
  }

  served(flow: string): void {
    this.#failures = 0;
    this.#flowRestsUntil.delete(flow);
  }

  /** Returns at once when the flow may ask the API. */
  async wait(flow: string, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#ports;
    for (let restMs = this.restMs(flow); restMs > 0; restMs = this.restMs(flow)) {
      await clock.sleep(withJitter(2 * restMs, random), signal);
    }
  }
}
