import { expect, it } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { BoundedMutex } from './bounded-mutex.ts';

const FOREVER = new AbortController().signal;

it('lets users work one after the other, in the order of arrival', async () => {
  const turns = new BoundedMutex(systemClock, 10_000);
  const done: number[] = [];
  let active = 0;
  const work = async (index: number): Promise<boolean> => {
    using turn = await turns.take(FOREVER);
    active += 1;
    expect(active).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    active -= 1;
    done.push(index);
    return turn.hasWaited;
  };
  expect(await Promise.all([0, 1, 2, 3].map(work))).toEqual([false, true, true, true]);
  expect(done).toEqual([0, 1, 2, 3]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(await work(4)).toBe(false);
});

it('gives a turn to users that have waited too long, and to the next ones only when all before them have ended', async () => {
  const turns = new BoundedMutex(systemClock, 500);
  const slow = await turns.take(FOREVER);
  const impatient = await turns.take(FOREVER);
  expect(impatient.hasWaited).toBe(true);
  const order: string[] = [];
  const next = takeNext(turns, order);
  order.push('impatient ends');
  impatient[Symbol.dispose]();
  await new Promise((resolve) => setTimeout(resolve, 5));
  order.push('slow ends');
  slow[Symbol.dispose]();
  await next;
  expect(order).toEqual(['impatient ends', 'slow ends', 'next']);
});

it('leaves the queue when the signal aborts, and holds up no one behind', async () => {
  const turns = new BoundedMutex(systemClock, 10_000);
  const first = await turns.take(FOREVER);
  const leaving = new AbortController();
  const left = turns.take(leaving.signal);
  const last = turns.take(FOREVER);
  const reason = new Error('the caller has gone');
  leaving.abort(reason);
  await expect(left).rejects.toBe(reason);
  await expect(turns.take(leaving.signal)).rejects.toBe(reason);
  first[Symbol.dispose]();
  (await last)[Symbol.dispose]();
});

async function takeNext(turns: BoundedMutex, order: string[]): Promise<void> {
  using _turn = await turns.take(FOREVER);
  order.push('next');
}
