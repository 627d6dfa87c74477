import { expect, it } from 'vitest';
import { SerialQueue } from './serial-queue.ts';

it('runs the work of one key in the order of arrival, also after a failure, and that of other keys concurrently', async () => {
  const queue = new SerialQueue();
  const order: string[] = [];
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  const first = queue.run(async () => {
    await gate;
    order.push('first');
    throw new Error('it failed');
  }, 'a');
  const second = queue.run(async () => Promise.resolve(order.push('second')), 'a');
  await queue.run(async () => Promise.resolve(order.push('other')), 'b');
  open();
  await expect(first).rejects.toThrow('it failed');
  expect(await second).toBe(3);
  expect(order).toEqual(['other', 'first', 'second']);
});
