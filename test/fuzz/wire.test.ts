import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isNetplugError } from '../../src/base/errors.ts';
import {
  type CallAnswer,
  type CallRequest,
  encodeAnswer,
  encodeRequest,
  type MessageReader,
  readCallAnswer,
  readRequest,
} from '../../src/apps/agent/wire.ts';
import { fuzz, HANG_MS, mustEqual } from './driver.ts';
import { byteMutants } from './mutants.ts';

const text = fc.string({ unit: 'binary', maxLength: 300 }).map((each) => each.toWellFormed());
const word = text.map((each) => each.replaceAll('\0', ''));
const request: fc.Arbitrary<CallRequest> = fc.record({
  kind: fc.constantFrom(
    'netplug',
    'netplug-ipam',
    'take-over',
    'show-calls',
    'show-network',
    'show-blocks',
    'show-flows',
  ),
  env: fc.dictionary(
    word.map((key) => `K${key.replaceAll('=', '')}`),
    word,
    { noNullPrototype: true },
  ),
  stdin: text,
});
const answer: fc.Arbitrary<CallAnswer> = fc.record({ status: fc.nat({ max: 255 }), stdout: text, stderr: text });
const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 8 });

/** Feeds the bytes in pieces. Returns the message, or undefined for less than one and for what is refused. */
function read<T>(reader: MessageReader<T>, bytes: Buffer, pieces: readonly number[]): T | undefined {
  let last: T | undefined;
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const end = at + (pieces[turn % pieces.length] ?? 1);
    try {
      last = reader.push(bytes.subarray(at, end));
    } catch (cause) {
      if (isNetplugError(cause, 'agent/protocol')) return undefined;
      throw cause;
    }
    at = end;
  }
  return last;
}

describe('the wire format of the agent', () => {
  it(
    'gives every request and answer back, however it is cut',
    () => {
      const count = fuzz(fc.tuple(request, answer, sizes), 0.3, ([asked, answered, pieces]) => {
        mustEqual(read(readRequest(), encodeRequest(asked), pieces), asked);
        mustEqual(read(readCallAnswer(), encodeAnswer(answered), pieces), answered);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );

  it(
    'refuses damaged bytes as agent/protocol, or reads what encodes to a message again',
    () => {
      const bytes = byteMutants(
        fc.oneof(request.map(encodeRequest), answer.map(encodeAnswer), fc.constant(Buffer.alloc(0))),
      );
      const count = fuzz(fc.tuple(bytes, sizes), 0.7, ([damaged, pieces]) => {
        const asked = read(readRequest(), damaged, pieces);
        if (asked !== undefined) mustEqual(read(readRequest(), encodeRequest(asked), pieces), asked);
        const answered = read(readCallAnswer(), damaged, pieces);
        if (answered !== undefined) mustEqual(read(readCallAnswer(), encodeAnswer(answered), pieces), answered);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );
});
