import type { Http2Stream } from '../../base/http2/http2-stream.ts';
import { expectGrpc, expectSuccess, framed, GRPC_HEADERS, GrpcFrames, type GrpcMethod } from './grpc.ts';
import type { Http2Connection } from './http2-connection.ts';

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
  const stream = await connection.stream(path, { headers: { ...GRPC_HEADERS, ...LEADER_ONLY }, signal });
  const frames = new GrpcFrames();
  send(stream, requests, encode).catch((cause: unknown) => {
    stream.destroy(cause instanceof Error ? cause : new Error(String(cause)));
  });
  for await (const chunk of stream) {
    expectGrpc(stream.headers);
    for (const message of frames.take(chunk)) yield decode(message);
  }
  expectGrpc(stream.headers);
  expectSuccess(stream);
  frames.end();
}

async function send<I>(
  stream: Http2Stream,
  requests: AsyncIterable<I>,
  encode: (request: I) => Uint8Array,
): Promise<void> {
  for await (const request of requests) {
    stream.write(framed(encode(request)));
    if (stream.isOver) return;
  }
  stream.end();
}
