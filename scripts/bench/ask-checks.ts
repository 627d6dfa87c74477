// Asks netplug-sidecar as a proxy does, over one HTTP/2 connection, and prints `ChecksAsked` as JSON. A check is encoded once and its bytes
// are sent again, so that the times are not those of this program. Arguments: how many checks, how many at a time, the client's address, and
// how many checks come before, whose times do not count: this program is slow at first, too.
import { once } from 'node:events';
import { connect } from 'node:net';
import { CheckRequest, CheckResponse } from '../../proto/gen/authz.ts';
import { CHECK } from '../../src/apps/sidecar/check-service.ts';
import { encodeHeaders } from '../../src/base/http2/hpack.ts';
import {
  DEFAULT_WINDOW,
  encodeFrame,
  FLAG,
  FRAME,
  FrameReader,
  MAX_WINDOW,
  PREFACE,
  windowUpdate,
} from '../../src/base/http2/http2-frames.ts';
import { framed } from '../../src/datastore/kv/grpc.ts';
import { CHECK_SOCKET } from '../../src/policy/feed/messages.ts';
import { quantile } from './statistics.ts';

export interface ChecksAsked {
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of all of them. */
  readonly ms: number;
}

/** Of each answer: flag of compression, and length of the message. */
const PREFIX_BYTES = 5;
const MOST_TIMES = 100_000;
const STREAM_AT = 5;
const NOTHING = Buffer.alloc(0);
const [measured = 0, atOnce = 0, , warmUp = 0] = process.argv.slice(2).map(Number);
const [, , , , client = ''] = process.argv;
const count = measured + warmUp;

const call = encodeHeaders([
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', CHECK],
  [':authority', 'netplug-check'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
]);
const begin = encodeFrame({ type: FRAME.headers, flags: FLAG.endHeaders, stream: 0, payload: call });
const request = Buffer.concat([
  begin,
  encodeFrame({ type: FRAME.data, flags: FLAG.endStream, stream: 0, payload: message() }),
]);

const socket = connect({ path: CHECK_SOCKET });
await once(socket, 'connect');
socket.write(PREFACE);
socket.write(encodeFrame({ type: FRAME.settings, flags: 0, stream: 0, payload: NOTHING }));
socket.write(encodeFrame(windowUpdate(MAX_WINDOW - DEFAULT_WINDOW)));

const beganMs = new Map<number, number>();
const times: number[] = [];
let asked = 0;
let answered = 0;
let startMs = 0;
const frames = new FrameReader();
socket.on('data', (chunk: Buffer) => {
  let more = 0;
  for (const { type, flags, stream, payload } of frames.read(chunk)) {
    if (type === FRAME.settings && (flags & FLAG.ack) === 0) {
      socket.write(encodeFrame({ type, flags: FLAG.ack, stream, payload: NOTHING }));
      startMs = performance.now();
      more = atOnce;
    }
    if (type === FRAME.data) assertAllowed(payload);
    if (type !== FRAME.headers || (flags & FLAG.endStream) === 0) continue;
    if (answered >= warmUp && times.length < MOST_TIMES) times.push(performance.now() - (beganMs.get(stream) ?? 0));
    beganMs.delete(stream);
    answered += 1;
    if (answered === warmUp) startMs = performance.now();
    more += 1;
  }
  ask(Math.min(more, count - asked));
  if (answered === count) socket.end();
});
await once(socket, 'close');
if (answered < count) throw new Error(`the sidecar answered ${String(answered)} of ${String(count)} checks`);
const result: ChecksAsked = {
  p50Ms: quantile(times, 0.5),
  p99Ms: quantile(times, 0.99),
  ms: performance.now() - startMs,
};
process.stdout.write(JSON.stringify(result));

function ask(checks: number): void {
  if (checks <= 0) return;
  const nowMs = performance.now();
  const bytes = Array.from({ length: checks }, () => {
    const stream = 2 * asked + 1;
    asked += 1;
    beganMs.set(stream, nowMs);
    const copy = Buffer.from(request);
    copy.writeUInt32BE(stream, STREAM_AT);
    copy.writeUInt32BE(stream, begin.length + STREAM_AT);
    return copy;
  });
  socket.write(Buffer.concat(bytes));
}

function message(): Buffer {
  const peer = (address: string, portValue: number) => ({
    address: { socketAddress: { address, portValue } },
    principal: '',
  });
  const encoded = CheckRequest.encode({
    attributes: {
      source: peer(client, 40_000),
      destination: peer('10.65.0.1', 8080),
      request: { http: { method: 'GET', path: '/items/1?page=2' } },
    },
  }).finish();
  return framed(encoded);
}

function assertAllowed(payload: Buffer): void {
  const { status } = CheckResponse.decode(payload.subarray(PREFIX_BYTES));
  if (status?.code !== 0) throw new Error('the sidecar denies what its policies allow');
}
