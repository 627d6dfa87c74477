import { describe, expect, it } from 'vitest';
import { forEachLimit } from './for-each-limit.ts';

const turn = async (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('forEachLimit', () => {
  it('acts on every item once, on at most the given number at a time', async () => {
    const done: number[] = [];
    let [busy, most] = [0, 0];
    await forEachLimit([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
      busy += 1;
      most = Math.max(most, busy);
      await turn();
      busy -= 1;
      done.push(item);
    });
    expect(done.sort()).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(most).toBe(3);
  });

  it('throws the first failure once running work has finished', async () => {
    const [begun, ended]: [number[], number[]] = [[], []];
    const failing = forEachLimit([1, 2, 3, 4, 5, 6], 2, async (item) => {
      begun.push(item);
      if (item === 2) throw new Error('two');
      await turn();
      ended.push(item);
    });
    await expect(failing).rejects.toThrow('two');
    expect([begun, ended]).toEqual([[1, 2], [1]]);
  });
});
