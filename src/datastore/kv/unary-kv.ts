import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { type ClientHttp2Stream, constants, type IncomingHttpHeaders, type IncomingHttpStatusHeader } from 'node:http2';
import {
  KV,
  type RangeRequestSchema,
  type RangeResponse,
  type TxnRequest,
  type TxnResponse,
} from '../../../proto/gen/etcd_pb.js';
import type { Http2Connection } from './http2-connection.ts';

/** etcd's KV service over one connection. Answers with an error status reject with a ConnectError. */
export interface UnaryKv {
  range(request: MessageInitShape<typeof RangeRequestSchema>, signal: AbortSignal): Promise<RangeResponse>;
  txn(request: TxnRequest, signal: AbortSignal): Promise<TxnResponse>;
}

type Connection = Pick<Http2Connection, 'request' | 'notifyResponseByteRead'>;

/**
 * Calls the KV service without the transport of the gRPC library, which loads the web's fetch API for its headers:
 * 20 ms of CPU for a program that serves one CNI call.
 */
export function unaryKv(connection: Connection): UnaryKv {
  return {
    range: async (request, signal) => call(connection, KV.method.range, { request, signal }),
    txn: async (request, signal) => call(connection, KV.method.txn, { request, signal }),
  };
}

/** Flags and length before each message of gRPC. */
const PREFIX_BYTES = 5;

async function call<I extends DescMessage, O extends DescMessage>(
  connection: Connection,
  method: DescMethodUnary<I, O>,
  { request, signal }: { readonly request: MessageInitShape<I>; readonly signal: AbortSignal },
): Promise<MessageShape<O>> {
  const message = toBinary(method.input, create(method.input, request));
  const stream = await unlessAborted(
    connection.request('POST', `/${method.parent.typeName}/${method.name}`, HEADERS, {}),
    signal,
  );
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  const answered = answerOf(stream, () => connection.notifyResponseByteRead(), signal);
  stream.end(Buffer.concat([prefix, message]));
  return fromBinary(method.output, messageIn(await answered));
}

const HEADERS = { 'content-type': 'application/grpc+proto', 'user-agent': 'netplug', te: 'trailers' };

/** Rejects when the signal aborts first; a stream that opens after that is closed. */
async function unlessAborted(opening: Promise<ClientHttp2Stream>, signal: AbortSignal): Promise<ClientHttp2Stream> {
  const leave = new AbortController();
  const aborted = new Promise<never>((_resolve, reject) => {
    const abort = (): void => reject(reasonOf(signal));
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true, signal: leave.signal });
  });
  try {
    return await Promise.race([opening, aborted]);
  } catch (cause) {
    opening.then(cancel, () => undefined);
    throw cause;
  } finally {
    leave.abort();
  }
}

interface Answer {
  readonly body: Buffer;
  readonly headers: IncomingHttpHeaders & IncomingHttpStatusHeader;
  readonly trailers: IncomingHttpHeaders;
}

async function answerOf(stream: ClientHttp2Stream, onBytes: () => void, signal: AbortSignal): Promise<Answer> {
  const chunks: Buffer[] = [];
  let headers: Answer['headers'] = {};
  let trailers: IncomingHttpHeaders = {};
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      cancel(stream);
      reject(reasonOf(signal));
    };
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    stream.on('response', (received) => (headers = received));
    stream.on('trailers', (received) => (trailers = received));
    stream.on('data', (chunk: Buffer) => {
      onBytes();
      chunks.push(chunk);
    });
    stream.on('end', () => resolve({ body: Buffer.concat(chunks), headers, trailers }));
    stream.on('error', reject);
    stream.on('close', () => {
      signal.removeEventListener('abort', abort);
      reject(new Error(`the server closed the stream with code ${String(stream.rstCode)}`));
    });
  });
}

/** @throws ConnectError with the status that the server gave, or for an answer that is not gRPC */
function messageIn({ body, headers, trailers }: Answer): Buffer {
  const httpStatus = headers[':status'] ?? 0;
  if (httpStatus !== 200) throw new ConnectError(`HTTP ${String(httpStatus)}`, CODES.get(httpStatus) ?? Code.Unknown);
  const type = headers['content-type'] ?? '';
  if (!type.startsWith('application/grpc')) throw new ConnectError(`unsupported content type ${type}`, Code.Unknown);
  const status = trailers['grpc-status'] ?? headers['grpc-status'];
  if (status === undefined) throw new ConnectError('protocol error: missing status', Code.Internal);
  if (status !== '0') {
    const reason = trailers['grpc-message'] ?? headers['grpc-message'];
    throw new ConnectError(decoded(String(reason ?? '')), STATUSES.get(Number(status)) ?? Code.Internal);
  }
  const isWhole = body.length >= PREFIX_BYTES && body[0] === 0 && body.readUInt32BE(1) === body.length - PREFIX_BYTES;
  if (!isWhole) throw new ConnectError('protocol error: the answer is not one message', Code.Internal);
  return body.subarray(PREFIX_BYTES);
}

const STATUSES = new Map<number, Code>(
  Object.values(Code)
    .filter((code) => typeof code === 'number')
    .map((code) => [code, code]),
);

/** Codes of gRPC for what proxies and servers without gRPC answer. */
const CODES: ReadonlyMap<number, Code> = new Map([
  [400, Code.Internal],
  [401, Code.Unauthenticated],
  [403, Code.PermissionDenied],
  [404, Code.Unimplemented],
  [429, Code.Unavailable],
  [502, Code.Unavailable],
  [503, Code.Unavailable],
  [504, Code.Unavailable],
]);

/** Decodes the percent-encoding of a gRPC message; returns an invalid one unchanged. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function cancel(stream: ClientHttp2Stream): void {
  stream.close(constants.NGHTTP2_CANCEL);
}

function reasonOf(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason));
}
