import { describe, expect, it } from 'vitest';
import { OneAtATime } from './one-at-a-time.ts';

describe('calls of one container', () => {
  it('happen in their order, whatever becomes of the one before, and those of others at once', async () => {
    const order = new OneAtATime(
      () => 0,
      () => undefined,
    );
    const said: string[] = [];
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const first = order.run('a', async () => {
      await gate;
      said.push('first');
      throw new Error('it failed');
    });
    const second = order.run('a', async () => Promise.resolve(said.push('second')));
    await order.run('b', async () => Promise.resolve(said.push('other')));
    open();
    await expect(first).rejects.toThrow('it failed');
    await second;
    expect(said).toEqual(['other', 'first', 'second']);
  });

  it('tells how long they waited', async () => {
    let now = 0;
    const waits: number[] = [];
    const order = new OneAtATime(
      () => now,
      (ms) => waits.push(ms),
    );
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const first = order.run('a', async () => gate);
    const second = order.run('a', async () => Promise.resolve());
    await Promise.resolve();
    now = 7;
    open();
    await Promise.all([first, second]);
    expect(waits).toEqual([0, 7]);
  });
});
