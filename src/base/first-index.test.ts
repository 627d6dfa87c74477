import { expect, it } from 'vitest';
import { firstIndex } from './first-index.ts';

it('returns the first index that does not come before, for every number of places', () => {
  for (let count = 0; count <= 9; count += 1)
    for (let first = 0; first <= count; first += 1) expect(firstIndex(count, (index) => index < first)).toBe(first);
});
