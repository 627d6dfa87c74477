import type { ClientHttp2Stream } from 'node:http2';
import { errnoOf } from '../../base/errors.ts';
import { expectGrpc, expectSuccess, framed, GRPC_HEADERS, GrpcFrames, type GrpcMethod } from './grpc.ts';
import type { Http2Connection } from './http2-connection.ts';
import { cancel, closedStream, receiveFields, unlessAborted } from './http2-unary.ts';

/** Makes a member that has lost its leader, and so receives no changes, close the stream. */
const LEADER_ONLY = { hasleader: 'true' };

/**
 * Sends the requests over one stream until there are no more, and yields the responses until the server ends the stream.
 * Stops sending when it ends, but takes one more request. @throws GrpcError
 */
export async function* grpcStream<I, O>(
  connection: Http2Connection,
  { path, encode, decode }: GrpcMethod<I, O>,
  { requests, signal }: { readonly requests: AsyncIterable<I>; readonly signal: AbortSignal },
): AsyncGenerator<O> {
  const stream = await unlessAborted(connection.stream(path, { ...GRPC_HEADERS, ...LEADER_ONLY }), signal);
  const fields = receiveFields(stream);
  const abort = (): void => cancel(stream);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  const frames = new GrpcFrames();
  send(stream, requests, encode).catch((cause: unknown) => {
    stream.destroy(cause instanceof Error ? cause : new Error(String(cause)));
  });
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      connection.notifyResponseByteRead();
      expectGrpc(fields.headers);
      for (const message of frames.take(chunk)) yield decode(message);
    }
    expectGrpc(fields.headers);
    expectSuccess(fields);
    frames.end();
  } catch (cause) {
    throw errnoOf(cause) === 'ERR_STREAM_PREMATURE_CLOSE' ? closedStream(stream, cause) : cause;
  } finally {
    signal.removeEventListener('abort', abort);
    cancel(stream);
  }
}

async function send<I>(
  stream: ClientHttp2Stream,
  requests: AsyncIterable<I>,
  encode: (request: I) => Uint8Array,
): Promise<void> {
  for await (const request of requests) {
    const bytes = framed(encode(request));
    // Calls back also when the stream is over; the reader reports why.
    await new Promise<void>((resolve) => stream.write(bytes, () => resolve()));
    if (stream.closed || stream.destroyed) return;
  }
  stream.end();
}
