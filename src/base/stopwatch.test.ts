import { describe, expect, it } from 'vitest';
import { virtualClock } from './clock.ts';
import { Stopwatch } from './stopwatch.ts';

const never = new AbortController().signal;

describe('stopwatch', () => {
  it('counts the time between awaited phases as the current step', async () => {
    const clock = virtualClock();
    const watch = new Stopwatch(clock, 'decode');
    await clock.sleep(1, never);
    await watch.time('store', async () => clock.sleep(5, never));
    await clock.sleep(2, never);
    watch.enter('answer');
    await clock.sleep(1, never);
    expect(watch.stop()).toEqual({
      totalMs: 9,
      phases: [
        { name: 'decode', startMs: 0, durationMs: 1, isFailed: false },
        { name: 'store', startMs: 1, durationMs: 5, isFailed: false },
        { name: 'decode', startMs: 6, durationMs: 2, isFailed: false },
        { name: 'answer', startMs: 8, durationMs: 1, isFailed: false },
      ],
    });
    expect(watch.facts()).toEqual({ decodeMs: 3, storeMs: 5, answerMs: 1, totalMs: 9 });
  });

  it('times concurrent phases side by side, without a step between them', async () => {
    const clock = virtualClock();
    const watch = new Stopwatch(clock, 'plan');
    const [ended, end] = gate();
    const kernel = watch.time('kernel', async () => ended);
    await watch.time('store', async () => clock.sleep(3, never));
    await clock.sleep(4, never);
    end();
    await kernel;
    expect(watch.stop().phases.map(({ name, startMs, durationMs }) => [name, startMs, durationMs])).toEqual([
      ['kernel', 0, 7],
      ['store', 0, 3],
    ]);
  });

  it('reports the phase in which a failure began, regardless of later clean-up', async () => {
    const watch = new Stopwatch(virtualClock(), 'plan');
    const unreachable = new Error('unreachable');
    await expect(watch.time('store', async () => Promise.reject(unreachable))).rejects.toBe(unreachable);
    await expect(watch.time('kernel', async () => Promise.reject(unreachable))).rejects.toBe(unreachable);
    await watch.time('delegate', async () => Promise.resolve());
    expect(watch.phaseOf(unreachable)).toBe('store');
    expect(watch.phaseOf(new Error('cannot assign', { cause: unreachable }))).toBe('store');
    expect(watch.phaseOf(new Error('unreachable'))).toBeUndefined();
    expect(watch.stop().phases).toMatchObject([
      { name: 'store', isFailed: true },
      { name: 'kernel', isFailed: true },
      { name: 'delegate', isFailed: false },
    ]);
  });
});

describe('a timed port', () => {
  it('times each call, whether it returns a value, returns a promise or throws', async () => {
    const clock = virtualClock();
    const watch = new Stopwatch(clock, 'plan');
    class Store {
      readonly #name = 'etcd';
      name = (): string => this.#name;
      async read(): Promise<string> {
        await clock.sleep(5, never);
        return this.#name;
      }
      fail(): never {
        throw new Error('refused');
      }
    }
    const store = watch.timePort('store', new Store());
    expect(store.name()).toBe('etcd');
    expect(await store.read()).toBe('etcd');
    expect(() => store.fail()).toThrow('refused');
    expect(watch.stop().phases).toEqual([
      { name: 'store', startMs: 0, durationMs: 5, isFailed: false },
      { name: 'store', startMs: 0, durationMs: 0, isFailed: false },
      { name: 'store', startMs: 5, durationMs: 0, isFailed: true },
    ]);
  });
});

function gate(): [Promise<void>, () => void] {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return [
    opened,
    () => {
      open();
    },
  ];
}
