import { describe, expect, it } from 'vitest';
import { parseJsonObject } from './parse-json.ts';

describe('JSON input', () => {
  it('is one object, with or without byte order mark', () => {
    expect(parseJsonObject('\uFEFF {"a": 1}\n')).toEqual({ a: 1 });
  });

  it.each([
    ['', 'the input is empty'],
    [' \n', 'the input is empty'],
    ['[1]', 'not a JSON object but [1] (array)'],
    ['null', 'not a JSON object but null'],
    ['{"a": 1,\n "b" 2}', 'line 2, column 6, near'],
    ['{"a":', 'line 1, column 6'],
    ['{"a": 1} x', 'line 1, column 10'],
  ])('is refused when it is %j', (text, message) => {
    expect(() => parseJsonObject(text)).toThrow(
      expect.objectContaining({ code: 'cni/input-undecodable', message: expect.stringContaining(message) }),
    );
  });
});
