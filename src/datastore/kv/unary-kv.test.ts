import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { GrpcCode, GrpcError } from './grpc.ts';
import { Http2Connection } from './http2-connection.ts';
import { bytesOf, rangeRequest } from './requests.ts';
import { unaryKv } from './unary-kv.ts';

const GRPC = { ':status': 200, 'content-type': 'application/grpc' };
/** One empty message. */
const EMPTY = Buffer.alloc(5);

function answer(body: Buffer, trailers: Readonly<Record<string, string>>, headers: object = GRPC) {
  return (stream: ServerHttp2Stream): void => {
    stream.respond({ ...headers }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    stream.end(body);
  };
}

describe('the KV service over an HTTP/2 connection', () => {
  /** Sends one range request to a server that answers with `respond`. */
  async function rangeFrom(
    respond: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void,
    signal = AbortSignal.timeout(10_000),
  ): Promise<unknown> {
    const server = createServer().on('stream', (stream, headers) => {
      stream.on('error', () => undefined);
      respond(stream, headers);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const connection = new Http2Connection(`http://127.0.0.1:${String(port)}`, { tls: {}, connectMs: 3000 });
    try {
      return await unaryKv(connection).range(rangeRequest({ key: bytesOf('a') }), signal);
    } finally {
      connection.close();
      server.close();
    }
  }

  it('calls the method by its full name and returns the decoded answer', async () => {
    let path: string | undefined;
    const found = await rangeFrom((stream, headers) => {
      path = headers[':path'];
      answer(EMPTY, { 'grpc-status': '0' })(stream);
    });
    expect(path).toBe('/etcdserverpb.KV/Range');
    expect(found).toMatchObject({ kvs: [], count: 0n });
  });

  it.each([
    [
      'a status with a message',
      answer(EMPTY, { 'grpc-status': '16', 'grpc-message': 'no%20user' }),
      GrpcCode.Unauthenticated,
      'no user',
    ],
    [
      'a status that gRPC does not have',
      answer(EMPTY, { 'grpc-status': '99', 'grpc-message': '100%' }),
      GrpcCode.Internal,
      '100%',
    ],
    ['a status without a message', answer(EMPTY, { 'grpc-status': '14' }), GrpcCode.Unavailable, 'the status is 14'],
    ['no status', answer(EMPTY, {}), GrpcCode.Internal, 'missing status'],
    ['HTTP 404', answer(EMPTY, {}, { ':status': 404 }), GrpcCode.Unimplemented, 'HTTP 404'],
    ['a page', answer(EMPTY, {}, { ':status': 200, 'content-type': 'text/html' }), GrpcCode.Unknown, 'text/html'],
    ['half a message', answer(Buffer.from([0, 0, 0, 0, 9, 1]), { 'grpc-status': '0' }), GrpcCode.Internal, 'cut off'],
    [
      'a compressed message',
      answer(Buffer.from([1, 0, 0, 0, 0]), { 'grpc-status': '0' }),
      GrpcCode.Internal,
      'compressed',
    ],
  ])('rejects an answer with %s', async (_what, respond, code, message) => {
    const error = await rangeFrom(respond).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(GrpcError);
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) as unknown });
  });

  it('rejects when the server resets the stream', async () => {
    await expect(rangeFrom((stream) => stream.close(2))).rejects.toThrow('INTERNAL_ERROR');
  });

  it('rejects with the reason of the signal while the server is silent, and cancels the request', async () => {
    const abort = new AbortController();
    let cancelled: Promise<unknown> = Promise.resolve();
    const asked = rangeFrom((stream) => {
      cancelled = once(stream, 'close');
      abort.abort(new Error('too late'));
    }, abort.signal);
    await expect(asked).rejects.toThrow('too late');
    await cancelled;
  });
});
