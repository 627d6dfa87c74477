import type { Clock } from '../../base/clock.ts';
import type { LeaderLease } from '../../runtime/leader-lease.ts';

/** Leases in memory, of any number of candidates. */
export class MemoryLeases {
  readonly #clock: Clock;
  readonly #held = new Map<string, { readonly holder: string; readonly untilMs: number }>();
  readonly #waiting = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  candidate({ name, holder, durationMs }: { name: string; holder: string; durationMs: number }): LeaderLease {
    let wasHeld = false;
    const owner = (): string | undefined => {
      const held = this.#held.get(name);
      return held !== undefined && this.#clock.monotonic() < held.untilMs ? held.holder : undefined;
    };
    return {
      durationMs,
      hold: async (signal) => {
        await Promise.resolve();
        signal.throwIfAborted();
        const isFree = wasHeld ? owner() === holder : (owner() ?? holder) === holder;
        wasHeld = isFree;
        if (isFree) this.#held.set(name, { holder, untilMs: this.#clock.monotonic() + durationMs });
        return isFree;
      },
      release: async () => {
        await Promise.resolve();
        wasHeld = false;
        if (owner() !== holder) return;
        this.#held.delete(name);
        for (const wake of this.#waiting) wake();
      },
      released: async (signal) => {
        if (owner() === undefined) return;
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#waiting.add(resolve);
        signal.addEventListener('abort', () => resolve(), { once: true });
        await promise.finally(() => this.#waiting.delete(resolve));
      },
    };
  }
}
