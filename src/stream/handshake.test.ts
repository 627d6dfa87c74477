import { expect, it } from 'vitest';
import { commonFormat, readErrorData } from './handshake.ts';

it('takes the newest format that both ends speak', () => {
  expect(commonFormat({ oldest: 1, newest: 3 }, { oldest: 2, newest: 4 })).toBe(3);
  expect(commonFormat({ oldest: 1, newest: 1 }, { oldest: 2, newest: 3 })).toBeUndefined();
});

it('reads an error of a newer release as one that this release knows, with its words', () => {
  const error = { code: 'typha/of-tomorrow', message: 'Cannot', hint: 'Do', facts: { a: 1, b: { c: 2 } } };
  expect(readErrorData(error)).toEqual({ code: 'stream/refused', message: 'Cannot', hint: 'Do', facts: { a: 1 } });
});

it('refuses what is no error as a broken protocol', () => {
  expect(() => readErrorData('x')).toThrow(expect.objectContaining({ code: 'stream/protocol' }));
});
