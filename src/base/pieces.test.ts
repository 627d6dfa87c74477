import { describe, expect, it } from 'vitest';
import { atOnce, inPieces, mapPieces, type Pieces } from './pieces.ts';

function* steps(count: number, onStep: (step: number) => void): Pieces<string> {
  for (let step = 1; step <= count; step += 1) {
    onStep(step);
    yield;
  }
  return 'done';
}

describe('work in pieces', () => {
  it('gives way when its turn of the event loop has lasted, and no sooner', async () => {
    const seen: (string | number)[] = [];
    let nowMs = 0;
    const work = steps(5, (step) => {
      seen.push(step);
      nowMs += 0.5;
    });
    await new Promise(setImmediate);
    const turn = (): void => {
      seen.push('turn');
      if (seen.length < 7) setImmediate(turn);
    };
    setImmediate(turn);
    expect(await inPieces(work, () => nowMs)).toBe('done');
    expect(seen).toEqual([1, 2, 'turn', 3, 4, 'turn', 5]);
  });

  it('shares a turn with other work in pieces', async () => {
    const seen: string[] = [];
    let nowMs = 0;
    const work = (name: string): Pieces<string> =>
      steps(2, () => {
        seen.push(name);
        nowMs += 0.6;
      });
    await new Promise(setImmediate);
    setImmediate(() => seen.push('turn'));
    await Promise.all(['a', 'b'].map(async (name) => inPieces(work(name), () => nowMs)));
    expect(seen).toEqual(['a', 'a', 'b', 'turn', 'b']);
  });

  it('can be done at once', () => {
    expect(atOnce(mapPieces([1, 2, 3], (one) => one * 2))).toEqual([2, 4, 6]);
  });
});
