import { queryObjects } from 'node:v8';
import { describe, expect, it } from 'vitest';
import { Channel } from './channel.ts';

describe('a channel', () => {
  it('yields items in order, whether they are pushed before or while the listener waits', async () => {
    const channel = new Channel<number>();
    const listener = channel[Symbol.asyncIterator]();
    channel.push(1);
    channel.push(2);
    expect([await listener.next(), await listener.next()].map(({ value }) => value)).toEqual([1, 2]);
    const next = listener.next();
    channel.push(3);
    expect(await next).toEqual({ value: 3, done: false });
  });

  it('ends at once when it is closed, and drops queued items', async () => {
    const channel = new Channel<number>();
    const listener = channel[Symbol.asyncIterator]();
    const waiting = listener.next();
    channel.push(1);
    channel.push(2);
    expect((await waiting).value).toBe(1);
    channel.close();
    channel.push(3);
    expect((await listener.next()).done).toBe(true);
  });

  it('keeps at most the last of the items that were taken', async () => {
    class Item {
      readonly isTaken = true;
    }
    const channel = new Channel<Item>();
    const listener = channel[Symbol.asyncIterator]();
    for (let count = 0; count < 100; count += 1) channel.push(new Item());
    for (let count = 0; count < 100; count += 1) await listener.next();
    const waiting = listener.next();
    await new Promise((resolve) => setImmediate(resolve));
    expect(queryObjects(Item, { format: 'count' })).toBeLessThanOrEqual(1);
    channel.close();
    await waiting;
  });

  it('throws the failure to the listener', async () => {
    const channel = new Channel<number>();
    const waiting = channel[Symbol.asyncIterator]().next();
    const failure = new Error('lost');
    channel.fail(failure);
    channel.close();
    await expect(waiting).rejects.toBe(failure);
  });
});
