import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isNetplugError } from '../../base/errors.ts';
import {
  type CallAnswer,
  type CallRequest,
  encodeAnswer,
  encodeRequest,
  type MessageReader,
  readCallAnswer,
  readRequest,
} from './wire.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 200 });
const word = text.map((word) => word.replaceAll('\0', ''));
const env = fc.dictionary(
  word.map((key) => `K${key.replaceAll('=', '')}`),
  word,
);
const request: fc.Arbitrary<CallRequest> = fc.record({
  kind: fc.constantFrom('netplug', 'netplug-ipam', 'take-over', 'show-calls'),
  env,
  stdin: text,
});
const answer: fc.Arbitrary<CallAnswer> = fc.record({ status: fc.nat({ max: 255 }), stdout: text, stderr: text });
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 });

/** Feeds the bytes in pieces of these sizes, over and over. */
function feed<T>(reader: MessageReader<T>, bytes: Buffer, pieces: readonly number[]): T | undefined {
  let [at, turn, last] = [0, 0, undefined as T | undefined];
  while (at < bytes.length) {
    const end = at + pieces[turn++ % pieces.length]!;
    last = reader.push(bytes.subarray(at, end));
    at = end;
  }
  return last;
}

function head(word: number, first: number, second: number): Buffer {
  const bytes = Buffer.alloc(12);
  [word, first, second].forEach((number, index) => bytes.writeUInt32LE(number, 4 * index));
  return bytes;
}

describe('the messages on the socket', () => {
  it('are decoded as they were encoded, from chunks of any size', () => {
    fc.assert(
      fc.property(request, sizes, (sent, pieces) => {
        expect(feed(readRequest(), encodeRequest(sent), pieces)).toEqual({ ...sent, env: { ...sent.env } });
      }),
    );
    fc.assert(
      fc.property(answer, sizes, (sent, pieces) => {
        expect(feed(readCallAnswer(), encodeAnswer(sent), pieces)).toEqual(sent);
      }),
    );
  });

  it('are rejected with an error code when they are invalid', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), (pieces) => {
        for (const reader of [readRequest(), readCallAnswer()]) {
          try {
            for (const piece of pieces) reader.push(piece);
          } catch (cause) {
            if (!isNetplugError(cause, 'agent/protocol')) throw cause;
          }
        }
      }),
    );
  });

  it.each([
    ['a large environment', readRequest(), head(1, 1024 * 1024 + 1, 0)],
    ['a large stdin', readRequest(), head(1, 0, 4 * 1024 * 1024 + 1)],
    ['an unknown kind', readRequest(), head(99, 0, 0)],
    ['no kind', readRequest(), head(0, 0, 0)],
    ['something behind the end', readRequest(), Buffer.concat([head(1, 0, 0), Buffer.from('x')])],
    ['a large output', readCallAnswer(), head(0, 16 * 1024 * 1024 + 1, 0)],
    ['an impossible status', readCallAnswer(), head(256, 0, 0)],
  ])('are refused at once with %s', (_, reader, bytes) => {
    expect(() => reader.push(bytes)).toThrow(/^Cannot use the socket of the agent: /);
  });

  it('pass with the largest size', () => {
    const sent: CallRequest = { kind: 'netplug', env: { A: 'x'.repeat(1024 * 1024 - 3) }, stdin: 'y'.repeat(4 << 20) };
    expect(feed(readRequest(), encodeRequest(sent), [65536])).toEqual(sent);
    expect(() => encodeRequest({ ...sent, stdin: `${sent.stdin}y` })).toThrow(/too large/);
  });

  it('keep the first of a variable that is there twice, and leave out what is no variable', () => {
    const entries = 'A=1\0B\0=C\0A=2\0__proto__=3\0';
    const bytes = Buffer.concat([head(2, entries.length, 0), Buffer.from(entries)]);
    const { env } = readRequest().push(bytes)!;
    expect(Object.entries(env)).toEqual([
      ['A', '1'],
      ['__proto__', '3'],
    ]);
  });
});
