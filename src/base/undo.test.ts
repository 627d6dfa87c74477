import { describe, expect, it } from 'vitest';
import { Undo } from './undo.ts';

describe('undo', () => {
  it('runs steps in reverse order unless `keep` was called', async () => {
    const seen: string[] = [];
    const run = async (keep: boolean): Promise<void> => {
      await using undo = new Undo();
      undo.defer(() => void seen.push('first'));
      undo.defer(() => void seen.push('second'));
      if (keep) undo.disarm();
    };
    await run(true);
    expect(seen).toEqual([]);
    await run(false);
    expect(seen).toEqual(['second', 'first']);
  });

  it('runs every step even when one fails, and reports the failures', async () => {
    const seen: string[] = [];
    const run = async (): Promise<void> => {
      await using undo = new Undo();
      undo.defer(() => void seen.push('first'));
      undo.defer(async () => Promise.reject(new Error('broken')));
    };
    await expect(run()).rejects.toBeInstanceOf(AggregateError);
    expect(seen).toEqual(['first']);
  });
});
