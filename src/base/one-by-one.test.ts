import { expect, it } from 'vitest';
import { OneByOne } from './one-by-one.ts';

it('begins nothing before what came first has ended, also when that fails', async () => {
  const seen: string[] = [];
  const line = new OneByOne();
  const first = line.run(async () => {
    await new Promise(setImmediate);
    seen.push('first');
    throw new Error('failed');
  });
  const second = line.run(async () => Promise.resolve(seen.push('second')));
  await expect(first).rejects.toThrow('failed');
  expect(await second).toBe(2);
  expect(seen).toEqual(['first', 'second']);
});
