import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { createServer, type Server, type Socket } from 'node:net';
import {
  KeyValueSchema,
  type RangeRequest,
  RangeRequestSchema,
  RangeResponseSchema,
  type RequestOp,
  type ResponseOpSchema,
  TxnRequestSchema,
  TxnResponseSchema,
} from '../../proto/gen/etcd_pb.js';
import { encodeHeaders, HeaderDecoder } from '../datastore/kv/hpack.ts';
import { encodeFrame, FLAG, FRAME, FrameReader } from '../datastore/kv/http2-frames.ts';
import { bytesOf, decodeText } from '../datastore/kv/requests.ts';

const PREFACE_BYTES = 24;
const PREFIX_BYTES = 5;
const EMPTY = Buffer.alloc(0);

/**
 * Returns a server that answers like an etcd whose only client is the rehearsal: one request at a time, and the conditions
 * of every transaction hold. Records are texts by key.
 */
export function rehearsalEtcd(records: Map<string, string>): Server {
  return createServer((socket) => serve(socket, records));
}

function serve(socket: Socket, records: Map<string, string>): void {
  const frames = new FrameReader();
  const decoder = new HeaderDecoder();
  let skipped = 0;
  let path = '';
  const send = (type: number, flags: number, content: { stream: number; payload: Buffer }): void => {
    socket.write(encodeFrame({ type, flags, ...content }));
  };
  send(FRAME.settings, 0, { stream: 0, payload: EMPTY });
  socket.on('data', (chunk) => {
    const rest = chunk.subarray(Math.min(chunk.length, PREFACE_BYTES - skipped));
    skipped += chunk.length - rest.length;
    for (const { type, flags, stream, payload } of frames.read(rest)) {
      if (type === FRAME.headers) path = new Map(decoder.decode(payload)).get(':path') ?? '';
      if (type !== FRAME.data || (flags & FLAG.endStream) === 0) continue;
      const message = Buffer.from(answer(records, path, payload.subarray(PREFIX_BYTES)));
      const prefix = Buffer.alloc(PREFIX_BYTES);
      prefix.writeUInt32BE(message.length, 1);
      const headers = encodeHeaders([
        [':status', '200'],
        ['content-type', 'application/grpc'],
      ]);
      // One segment: how the client reads it must not depend on time.
      socket.cork();
      send(FRAME.headers, FLAG.endHeaders, { stream, payload: headers });
      send(FRAME.data, 0, { stream, payload: Buffer.concat([prefix, message]) });
      send(FRAME.headers, FLAG.endHeaders | FLAG.endStream, { stream, payload: encodeHeaders([['grpc-status', '0']]) });
      socket.uncork();
    }
  });
}

function answer(records: Map<string, string>, path: string, message: Buffer): Uint8Array {
  if (path.endsWith('/Range')) {
    const found = range(records, fromBinary(RangeRequestSchema, message));
    return toBinary(RangeResponseSchema, create(RangeResponseSchema, found));
  }
  const { success } = fromBinary(TxnRequestSchema, message);
  const responses = success.map((op) => apply(records, op));
  return toBinary(TxnResponseSchema, create(TxnResponseSchema, { succeeded: true, header: HEADER, responses }));
}

const HEADER = { revision: 1n };

function apply(records: Map<string, string>, { request }: RequestOp): MessageInitShape<typeof ResponseOpSchema> {
  if (request.case === 'requestRange')
    return { response: { case: 'responseRange', value: range(records, request.value) } };
  if (request.case === 'requestPut') {
    records.set(decodeText(request.value.key), decodeText(request.value.value));
    return { response: { case: 'responsePut', value: { header: HEADER } } };
  }
  if (request.case === 'requestDeleteRange') records.delete(decodeText(request.value.key));
  return { response: { case: 'responseDeleteRange', value: { header: HEADER } } };
}

function range(
  records: ReadonlyMap<string, string>,
  { key, rangeEnd }: Pick<RangeRequest, 'key' | 'rangeEnd'>,
): MessageInitShape<typeof RangeResponseSchema> & object {
  const from = decodeText(key);
  const to = decodeText(rangeEnd);
  const keys = [...records.keys()].filter((one) => (to === '' ? one === from : one >= from && one < to));
  const kvs = keys
    .sort()
    .map((one) =>
      create(KeyValueSchema, { key: bytesOf(one), value: bytesOf(records.get(one) ?? ''), modRevision: 1n }),
    );
  return { header: HEADER, kvs, count: BigInt(kvs.length) };
}
