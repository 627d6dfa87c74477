import * as v from 'valibot';
import { toJsonSchema } from '@valibot/to-json-schema';
import { describe, expect, it } from 'vitest';
import { ownValue } from './own-value.ts';
import { foreignRecord } from './foreign-record.ts';

const KEYS = ['prototype', 'constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf', 'a'];
const TEXTS = foreignRecord(v.string(), v.string('a string'), 'an object of strings');
const every = JSON.parse(`{${KEYS.map((key) => `"${key}":"x"`).join(',')}}`) as Record<string, string>;

describe('a schema of records', () => {
  it('keeps every key, also those that objects inherit and those that the library drops', () => {
    const read = v.parse(TEXTS, every);
    expect(Object.keys(read)).toEqual(KEYS);
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
    expect(JSON.parse(JSON.stringify(read))).toEqual(every);
  });

  it('keeps none that the input inherits', () => {
    expect(v.parse(TEXTS, Object.create({ inherited: 'x' }))).toEqual({});
  });

  it.each([[null], [[]], [['a']], ['text'], [7]])('refuses %j with its own message', (raw) => {
    const read = v.safeParse(TEXTS, raw);
    expect(read.issues?.map(({ message, input }) => [message, input])).toEqual([['an object of strings', raw]]);
  });

  it('names the key of each issue, whatever the key is', () => {
    const schema = foreignRecord(
      v.pipe(
        v.string(),
        v.check((key) => key !== 'a', 'another key'),
      ),
      v.object({ b: v.string('a string') }),
    );
    const read = v.safeParse(schema, JSON.parse('{"__proto__":{"b":1},"constructor":{"b":"x"},"a":{"b":"x"}}'));
    expect(read.issues?.map((issue) => [v.getDotPath(issue), issue.message])).toEqual([
      ['__proto__.b', 'a string'],
      ['a', 'another key'],
    ]);
  });

  it('has the JSON schema of a record', () => {
    expect(toJsonSchema(TEXTS)).toMatchObject({ type: 'object', additionalProperties: { type: 'string' } });
  });
});

describe('the own value of a record', () => {
  it('is what the record itself has, for every key', () => {
    for (const key of KEYS) {
      expect([key, ownValue(every, key), ownValue({}, key), ownValue(undefined, key)]).toEqual([
        key,
        'x',
        undefined,
        undefined,
      ]);
    }
  });
});
