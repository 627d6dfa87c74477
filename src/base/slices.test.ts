import { describe, expect, it } from 'vitest';
import { slices } from './slices.ts';

describe('slices of a list', () => {
  it('have all items in their order, and let other work run between two of them', async () => {
    const log: unknown[] = [];
    setImmediate(() => log.push('other work'));
    for await (const slice of slices([1, 2, 3, 4, 5], 2)) log.push(slice);
    expect(log).toEqual([[1, 2], 'other work', [3, 4], [5]]);
  });

  it('are none of an empty list', async () => {
    for await (const slice of slices([], 2)) expect.unreachable(String(slice));
  });
});
