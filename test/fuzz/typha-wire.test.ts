import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isNetplugError } from '../../src/base/errors.ts';
import {
  CLIENT_BYTES,
  type ClientMessage,
  followFrame,
  partFrame,
  readClientFrame,
  readServerFrame,
  SERVER_BYTES,
  type ServerMessage,
} from '../../src/datastore/typha/follow-frames.ts';
import { readRecordText, recordText } from '../../src/datastore/typha/record-text.ts';
import { STORED_TOPICS } from '../../src/datastore/typha/topics.ts';
import {
  HELLO_MESSAGE,
  HELLO_BYTES,
  LEAVE_MESSAGE,
  SERVERS_MESSAGE,
  WELCOME_MESSAGE,
} from '../../src/stream/handshake.ts';
import { type StreamFrame, StreamFrameReader } from '../../src/stream/stream-frames.ts';
import { fuzz, HANG_MS, mustEqual } from './driver.ts';
import { byteMutants, jsonMutants } from './mutants.ts';
import { RECORDS } from './followed-records.ts';

const text = fc.string({ unit: 'binary', maxLength: 100 }).map((each) => each.toWellFormed());
const number = fc.nat();
const changed = fc.option(number, { nil: undefined });
const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 8 });
const fromClient: fc.Arbitrary<ClientMessage> = fc.oneof(
  fc.record({ kind: fc.constant('begin' as const), topic: text, changed }),
  fc.record({ kind: fc.constant('end' as const), topic: text }),
  fc.record({
    kind: fc.constant('ack' as const),
    positions: fc.dictionary(text, number, { noNullPrototype: true }),
  }),
);
const fromServer: fc.Arbitrary<ServerMessage> = fc.oneof(
  fc.record({
    kind: fc.constant('part' as const),
    topic: text,
    isFirst: fc.boolean(),
    position: number,
    changed,
    lines: fc.array(
      fc.record({
        key: text,
        text: fc.option(
          fc.jsonValue().map((each) => JSON.stringify(each)),
          { nil: undefined },
        ),
      }),
    ),
  }),
  fc.record({ kind: fc.constant('complete' as const), topic: text }),
  fc.record({
    kind: fc.constant('beat' as const),
    topics: fc.dictionary(text, fc.record({ position: number, changed, through: changed, ageMs: number }), {
      noNullPrototype: true,
    }),
  }),
  fc.record({
    kind: fc.constant('failed' as const),
    topic: text,
    error: fc.record({
      code: fc.constantFrom('store/unavailable' as const, 'store/refused' as const),
      message: text,
      hint: fc.option(text, { nil: undefined }),
      facts: fc.constant({}),
    }),
  }),
);

function serverFrame(message: ServerMessage): Buffer {
  if (message.kind !== 'part') return followFrame(message);
  const { kind: _, ...part } = message;
  return partFrame(part);
}

/** Returns the frames in the bytes, fed in pieces, up to what is refused. */
function framesIn(bytes: Buffer, pieces: readonly number[], limit: number): StreamFrame[] {
  const reader = new StreamFrameReader(limit);
  const frames: StreamFrame[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const end = at + (pieces[turn % pieces.length] ?? 1);
    const read = orRefused(() => [...reader.push(bytes.subarray(at, end))]);
    if (read === undefined) return frames;
    frames.push(...read);
    at = end;
  }
  return frames;
}

function orRefused<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (cause) {
    if (isNetplugError(cause, 'stream/protocol')) return undefined;
    throw cause;
  }
}

describe('the protocol of netplug-typha', () => {
  it(
    'gives every message of a client and of a server back, however it is cut',
    () => {
      const count = fuzz(fc.tuple(fromClient, fromServer, sizes), 0.2, ([asked, answered, pieces]) => {
        const bytes = Buffer.concat([followFrame(asked), serverFrame(answered)]);
        const [first, second, ...more] = framesIn(bytes, pieces, SERVER_BYTES);
        mustEqual(more, []);
        mustEqual(first === undefined ? first : readClientFrame(first), asked);
        mustEqual(second === undefined ? second : readServerFrame(second), answered);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );

  it(
    'refuses damaged bytes as stream/protocol, before and after hello, and reads what encodes to a message again',
    () => {
      const hello = { token: 't', release: '1', formats: { oldest: 1, newest: 2 }, about: { blockSource: 'pools' } };
      const entry = {
        name: 's',
        addresses: ['10.0.0.1'],
        port: 5473,
        certificate: 'c',
        formats: { oldest: 1, newest: 1 },
      };
      const bytes = byteMutants(
        fc.oneof(
          fromClient.map(followFrame),
          fromServer.map(serverFrame),
          fc.constantFrom(
            HELLO_MESSAGE.frame(hello),
            WELCOME_MESSAGE.frame({ server: 's', release: '1', format: 1 }),
            LEAVE_MESSAGE.frame({ withinMs: 10 }),
            SERVERS_MESSAGE.frame([{ ...entry, isLeaving: false }]),
          ),
        ),
      );
      const limits = fc.constantFrom(HELLO_BYTES, CLIENT_BYTES, SERVER_BYTES);
      const count = fuzz(fc.tuple(bytes, sizes, limits), 0.5, ([damaged, pieces, limit]) => {
        for (const frame of framesIn(damaged, pieces, limit)) {
          expect(frame.payload.length).toBeLessThanOrEqual(limit);
          const asked = orRefused(() => readClientFrame(frame));
          if (asked !== undefined) mustEqual(framesIn(followFrame(asked), [7], limit).map(readClientFrame), [asked]);
          const answered = orRefused(() => readServerFrame(frame));
          if (answered !== undefined)
            mustEqual(framesIn(serverFrame(answered), [7], SERVER_BYTES).map(readServerFrame), [answered]);
          for (const { read } of [HELLO_MESSAGE, WELCOME_MESSAGE, LEAVE_MESSAGE, SERVERS_MESSAGE])
            orRefused(() => read(frame));
        }
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );

  it(
    'reads a damaged record as one that encodes to the same again, as a problem, or refuses it',
    () => {
      const topics = [
        'resources/NetworkPolicy',
        'derived/NetworkPolicy',
        'nodes',
        'pods',
        'block-routes',
        'service-endpoints',
        ...STORED_TOPICS,
      ];
      const mutants = jsonMutants(RECORDS.map((record) => JSON.parse(recordText('pods', record)) as unknown));
      const count = fuzz(fc.tuple(mutants, fc.constantFrom(...topics)), 0.3, ([raw, topic]) => {
        const record = orRefused(() => readRecordText(topic, { key: 'k', text: JSON.stringify(raw) }));
        if (record === undefined) return;
        const again = readRecordText(topic, { key: 'k', text: recordText(topic, record) });
        if (record.problem === undefined) mustEqual(again, record);
      });
      expect(count).toBeGreaterThan(10);
    },
    HANG_MS,
  );
});
