import { expect, it } from 'vitest';
import { ownTurn } from './turns.ts';

it('lets one go on per turn of the event loop, in their order', async () => {
  const seen: string[] = [];
  const turn = (count: number): void => {
    seen.push('turn');
    if (count > 1) setImmediate(turn, count - 1);
  };
  setImmediate(turn, 4);
  await Promise.all(
    ['a', 'b', 'c'].map(async (name) => {
      await ownTurn();
      seen.push(name);
    }),
  );
  expect(seen).toEqual(['turn', 'a', 'turn', 'b', 'turn', 'c']);
});
