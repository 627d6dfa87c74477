import { describe, expect, it } from 'vitest';
import { Channel } from './channel.ts';

describe('a channel', () => {
  it('gives the listener everything in order, whether it was pushed before or while it waits', async () => {
    const channel = new Channel<number>();
    const listener = channel[Symbol.asyncIterator]();
    channel.push(1);
    channel.push(2);
    expect([await listener.next(), await listener.next()].map(({ value }) => value)).toEqual([1, 2]);
    const next = listener.next();
    channel.push(3);
    expect(await next).toEqual({ value: 3, done: false });
  });

  it('ends at once when it is closed, and forgets what still waits', async () => {
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

  it('throws what it failed with', async () => {
    const channel = new Channel<number>();
    const waiting = channel[Symbol.asyncIterator]().next();
    const failure = new Error('lost');
    channel.fail(failure);
    channel.close();
    await expect(waiting).rejects.toBe(failure);
  });
});
