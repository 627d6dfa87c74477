import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { NetplugError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { seededRandom } from '../base/random.ts';
import { Reconciler, type ReconcilerOptions } from './reconciler.ts';

const unavailable = new NetplugError('store/unavailable', 'Cannot use the datastore', { hint: 'Start it' });

/** A reconciler whose runs fail with the given errors, one per run, and succeed where there is none. */
function start(outcomes: readonly (Error | 'repaired' | undefined)[], options: Partial<ReconcilerOptions> = {}) {
  const runs: number[] = [];
  const events: string[] = [];
  const note = (event: string): void => void events.push(event);
  const log: Log = { debug: note, info: note, warning: note, error: note };
  const stop = new AbortController();
  const reconciler = new Reconciler({
    name: 'routes',
    reconcile: async () => {
      const outcome = outcomes[runs.length];
      runs.push(Date.now());
      if (outcome instanceof Error) throw outcome;
      return Promise.resolve(outcome);
    },
    clock: systemClock,
    random: seededRandom(1),
    log,
    ...options,
  });
  const ended = reconciler.run(stop.signal);
  return { reconciler, runs, events, stop: async () => (stop.abort(), ended) };
}

beforeEach(() => vi.useFakeTimers({ now: 0, toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] }));
afterEach(() => vi.useRealTimers());

describe('a reconciler', () => {
  it('runs only when triggered, once for triggers that come together', async () => {
    const { reconciler, runs, stop } = start([]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(runs).toHaveLength(0);
    for (let count = 0; count < 3; count += 1) reconciler.trigger();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(runs).toHaveLength(1);
    await stop();
  });

  it('runs again for a trigger that comes during a run', async () => {
    const { reconciler, runs, stop } = start([], {
      onRun: () => (runs.length === 1 ? reconciler.trigger() : undefined),
    });
    reconciler.trigger();
    await vi.advanceTimersByTimeAsync(1000);
    expect(runs).toHaveLength(2);
    await stop();
  });

  it('resyncs periodically once it has succeeded', async () => {
    const { reconciler, runs, stop } = start([], { resyncMs: 10_000 });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(runs).toHaveLength(0);
    reconciler.trigger();
    await vi.advanceTimersByTimeAsync(35_000);
    expect(runs).toHaveLength(4);
    await stop();
  });

  it('retries with back-off after a failure, and logs one failure and one recovery', async () => {
    const { reconciler, runs, events, stop } = start([new Error('no route'), new Error('no route')]);
    reconciler.trigger();
    await vi.advanceTimersByTimeAsync(100);
    expect(reconciler.report('lastError')).toEqual(['routes: no route']);
    await vi.advanceTimersByTimeAsync(5000);
    expect(runs).toHaveLength(3);
    expect(runs[2]! - runs[1]!).toBeGreaterThanOrEqual(250);
    expect(events).toEqual(['reconcile failed', 'reconcile recovered']);
    expect(reconciler.lastError).toBeUndefined();
    await stop();
  });

  it('tells who compares early, after the run, whether it has repaired something', async () => {
    const { reconciler, runs, stop } = start([undefined, new Error('no'), 'repaired', undefined]);
    reconciler.trigger();
    const compare = async (): Promise<unknown> => {
      const before = runs.length;
      const [isRepaired] = await Promise.all([reconciler.compareEarly(), vi.advanceTimersByTimeAsync(25)]);
      return [isRepaired, runs.length - before];
    };
    await vi.advanceTimersByTimeAsync(25);
    expect([await compare(), await compare(), await compare()]).toEqual([
      [false, 1],
      [true, 1],
      [false, 1],
    ]);
    await stop();
  });

  it('counts an unavailable datastore as a failure only before it has succeeded', async () => {
    const { reconciler, stop } = start([unavailable, undefined, unavailable]);
    reconciler.trigger();
    await vi.advanceTimersByTimeAsync(25);
    expect(reconciler.failure).toBeDefined();
    await vi.advanceTimersByTimeAsync(1000);
    expect(reconciler.hasSucceeded).toBe(true);
    reconciler.trigger();
    await vi.advanceTimersByTimeAsync(25);
    expect([reconciler.lastError, reconciler.failure]).toEqual([expect.stringContaining('datastore'), undefined]);
    await stop();
  });
});
