import { backOffMs, type RetryPorts, withJitter } from '../base/back-off.ts';

const BACK_OFF = { firstMs: 100, maxMs: 5000 };
/** The longest that a `Retry-After` counts for. A server that asks for a day must not silence a node for a day. */
const LONGEST_ASKED_MS = 30_000;

/**
 * Backs off all watches of one API server after one of them was not served. Concurrent failures count once. A `Retry-After`
 * applies only to the flow that received it. Each watch adds jitter, so that they do not return at once.
 */
export class SharedBackOff {
  readonly #ports: RetryPorts;
  #failures = 0;
  /** On the monotonic clock. */
  #backOffUntilMs = Number.NEGATIVE_INFINITY;
  readonly #flowBackOffUntilMs = new Map<string, number>();

  constructor(ports: RetryPorts) {
    this.#ports = ports;
  }

  /** Returns how many milliseconds the flow must still back off. */
  restMs(flow: string): number {
    const until = Math.max(this.#backOffUntilMs, this.#flowBackOffUntilMs.get(flow) ?? Number.NEGATIVE_INFINITY);
    return Math.max(0, until - this.#ports.clock.monotonic());
  }

  /** Records that the API did not serve the flow; `waitMs` is its `Retry-After`. */
  refused(flow: string, waitMs: number | undefined): void {
    const now = this.#ports.clock.monotonic();
    if (waitMs !== undefined) {
      this.#flowBackOffUntilMs.set(flow, now + Math.min(waitMs, LONGEST_ASKED_MS));
      return;
    }
    if (this.#backOffUntilMs > now) return;
    this.#failures += 1;
    this.#backOffUntilMs = now + backOffMs(BACK_OFF, { failures: this.#failures }, this.#ports.random);
  }

  served(flow: string): void {
    this.#failures = 0;
    this.#flowBackOffUntilMs.delete(flow);
  }

  /** Returns at once when the flow may ask the API. */
  async wait(flow: string, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#ports;
    for (let restMs = this.restMs(flow); restMs > 0; restMs = this.restMs(flow)) {
      await clock.sleep(withJitter(2 * restMs, random), signal);
    }
  }
}
