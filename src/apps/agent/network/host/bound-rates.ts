import type { RetryPorts } from '../../../../base/back-off.ts';
import { reasonOf } from '../../../../base/errors.ts';
import type { Log } from '../../../../base/log.ts';
import type { HostNetwork } from '../../../../dataplane/host-network.ts';
import { describeRateLimit, neededBounds, type RateLimits } from '../../../../dataplane/rate-limits.ts';
import { Reconciler } from '../../../../runtime/reconciler.ts';

/** The kernel reports new limits; what it may have lost is found within this time. */
const RESYNC_MS = 10_000;
/** Each change is reported as well. */
const PAUSE_MS = 200;

interface BoundPorts extends RetryPorts {
  readonly log: Log;
  readonly host: Pick<HostNetwork, 'watch'>;
  readonly rateLimits: RateLimits;
  /** Milliseconds of its rate that a pod sends or receives at once. */
  readonly burstMs: number;
}

/**
 * Bounds what passes before the limits of the rates of pods hold. For the annotations that runtimes read themselves, the standard
 * plugin makes the limits after the ADD of netplug, with a burst of hundreds of megabytes.
 */
export class RateBounder {
  readonly #ports: BoundPorts;
  readonly #reconciler: Reconciler;
  #problems: readonly string[] = [];

  constructor(ports: BoundPorts) {
    this.#ports = ports;
    const { clock, random, log } = ports;
    this.#reconciler = new Reconciler({
      name: 'rate limits',
      clock,
      random,
      log,
      reconcile: async () => this.#reconcile(),
      resyncMs: RESYNC_MS,
      pauseMs: PAUSE_MS,
    });
  }

  /** Why limits are not bounded, a sentence each. Pods have their network all the same. */
  problems(): readonly string[] {
    return [...this.#reconciler.report('lastError'), ...this.#problems];
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    using _watch = this.#ports.host.watch(({ kind }) => {
      if (kind === 'rate-limits' || kind === 'unknown') this.#reconciler.trigger();
    });
    this.#reconciler.trigger();
    await this.#reconciler.run(signal);
  }

  async #reconcile(): Promise<void> {
    const { rateLimits, burstMs, log } = this.#ports;
    const problems: string[] = [];
    for (const limit of await rateLimits.listRateLimits()) {
      const bounds = neededBounds(limit, burstMs);
      if (bounds === undefined) continue;
      const { device, owner, direction } = limit;
      try {
        await rateLimits.boundRate(limit, bounds);
        log.info('rate limit bounded', { device, container: owner.containerId, direction, ...bounds });
      } catch (cause) {
        problems.push(`${describeRateLimit(limit)}: ${reasonOf(cause)}`);
      }
    }
    this.#problems = problems;
  }
}
