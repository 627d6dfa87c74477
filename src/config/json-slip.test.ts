import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tryParseJson } from '../base/try-parse-json.ts';
import { findJsonSlip } from './json-slip.ts';

/** JSON with a part replaced by other characters. */
const damaged = fc
  .tuple(
    fc.json({ maxDepth: 3 }),
    fc.nat(),
    fc.nat(4),
    fc.oneof(
      fc.constantFrom('', ',', '}', ']', '"', '\\', '\n', ':', '0', 'e', '.', '-', '{', '['),
      fc.string({ maxLength: 3 }),
    ),
  )
  .map(
    ([text, at, length, by]) =>
      text.slice(0, at % (text.length + 1)) + by + text.slice((at % (text.length + 1)) + length),
  );

describe('the first error in JSON', () => {
  it('is found in exactly the texts that are not JSON', () => {
    fc.assert(
      fc.property(damaged, (text) => {
        fc.pre(text.trim() !== '');
        expect(findJsonSlip(text) === undefined).toBe(tryParseJson(text) !== undefined);
      }),
      { numRuns: 3000 },
    );
  });

  it('is at the place to correct', () => {
    expect(findJsonSlip('{"a": [1, 2, ]}')).toMatchObject({ offset: 11, advice: expect.stringContaining('comma') });
    expect(findJsonSlip('{"a": [1}')).toMatchObject({ offset: 8, advice: expect.stringContaining('write "]"') });
    expect(findJsonSlip('{"a": tru}')).toMatchObject({ offset: 6, advice: 'write "tru", in double quotes' });
    expect(findJsonSlip('[{"a": 1},\n {"b": 2}')).toMatchObject({ offset: 0, advice: '"[" is never closed' });
    expect(findJsonSlip('{"a": "\\x"}')).toMatchObject({ offset: 7, advice: expect.stringContaining('backslash') });
  });

  it('is found in extremely deep nesting', () => {
    expect(findJsonSlip('['.repeat(100_000))).toMatchObject({ offset: 500 });
  });
});
