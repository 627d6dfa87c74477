import { once } from 'node:events';
import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { Channel } from '../../base/channel.ts';
import { framed, GrpcCode, type GrpcMethod } from './grpc.ts';
import { grpcStream } from './grpc-stream.ts';
import { Http2Connection } from './http2-connection.ts';

const ECHO: GrpcMethod<string, string> = {
  path: '/test/Echo',
  encode: (text) => Buffer.from(text),
  decode: (bytes) => Buffer.from(bytes).toString(),
};
const HEADERS = { ':status': 200, 'content-type': 'application/grpc' };

interface Conversation {
  readonly requests: Channel<string>;
  readonly responses: AsyncGenerator<string>;
  readonly abort: AbortController;
}

/** Opens one stream to a server that serves it with `serve`. */
async function converse(
  serve: (stream: ServerHttp2Stream) => void,
  talk: (conversation: Conversation) => Promise<void>,
  method = ECHO,
): Promise<void> {
  const server = createServer().on('stream', (stream) => {
    stream.on('error', () => undefined);
    serve(stream);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = new Http2Connection(`http://127.0.0.1:${String(port)}`, { tls: {}, connectMs: 3000 });
  const requests = new Channel<string>();
  const abort = new AbortController();
  try {
    await talk({ requests, abort, responses: grpcStream(connection, method, { requests, signal: abort.signal }) });
  } finally {
    requests.close();
    connection.close();
    server.close();
  }
}

async function all(responses: AsyncIterable<string>): Promise<string[]> {
  const found: string[] = [];
  for await (const response of responses) found.push(response);
  return found;
}

/** Ends the stream with that status after it has sent the bytes. */
function answer(bytes: Buffer, trailers: Readonly<Record<string, string>>) {
  return (stream: ServerHttp2Stream): void => {
    stream.respond(HEADERS, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    stream.end(bytes);
  };
}

it('sends requests and yields responses while both go on, whatever the pieces in which they arrive', async () => {
  await converse(
    (stream) => {
      stream.respond(HEADERS);
      stream.on('data', (chunk: Buffer) => {
        for (const byte of chunk) stream.write(Buffer.of(byte));
      });
    },
    async ({ requests, responses }) => {
      for (const text of ['one', '', 'x'.repeat(1000)]) {
        requests.push(text);
        expect(await responses.next()).toEqual({ value: text, done: false });
      }
      await responses.return(undefined);
    },
  );
});

it('yields several messages of one piece', async () => {
  const bytes = Buffer.concat([framed(Buffer.from('a')), framed(Buffer.from('b'))]);
  await converse(answer(bytes, { 'grpc-status': '0' }), async ({ responses }) => {
    expect(await all(responses)).toEqual(['a', 'b']);
  });
});

it.each([
  [
    'with an error status',
    answer(framed(Buffer.from('a')), { 'grpc-status': '14', 'grpc-message': 'no%20leader' }),
    GrpcCode.Unavailable,
    'no leader',
  ],
  ['without a status', answer(framed(Buffer.from('a')), {}), GrpcCode.Internal, 'missing status'],
  [
    'inside a message',
    answer(Buffer.concat([framed(Buffer.from('a')), Buffer.of(0, 0)]), { 'grpc-status': '0' }),
    GrpcCode.Internal,
    'cut off',
  ],
])('throws after the responses when the server ends the stream %s', async (_how, serve, code, message) => {
  await converse(serve, async ({ responses }) => {
    expect(await responses.next()).toEqual({ value: 'a', done: false });
    await expect(responses.next()).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message) as unknown,
    });
  });
});

it('joins a message of many megabytes once', async () => {
  const large = 'x'.repeat(24 * 1024 * 1024);
  await converse(answer(framed(Buffer.from(large)), { 'grpc-status': '0' }), async ({ responses }) => {
    const began = process.threadCpuUsage();
    expect((await all(responses))[0]?.length).toBe(large.length);
    const { user, system } = process.threadCpuUsage(began);
    // Joined for each piece, it takes twenty seconds.
    expect((user + system) / 1e6).toBeLessThan(5);
  });
});

it('throws for an answer that is not gRPC, before it reads its body as messages', async () => {
  await converse(
    (stream) => {
      stream.respond({ ':status': 503 });
      stream.end('<html>');
    },
    async ({ responses }) => {
      await expect(responses.next()).rejects.toMatchObject({ code: GrpcCode.Unavailable, message: 'HTTP 503' });
    },
  );
});

it.each([
  [
    'aborts',
    async ({ abort, responses }: Conversation) => {
      const next = responses.next();
      abort.abort(new Error('enough'));
      await next.catch(() => undefined);
    },
  ],
  ['returns', async ({ responses }: Conversation) => responses.return(undefined)],
])('cancels the request when the caller %s', async (_how, leave) => {
  let cancelled: Promise<unknown> = Promise.resolve();
  await converse(
    (stream) => {
      cancelled = once(stream, 'close');
      stream.respond(HEADERS);
      stream.write(framed(Buffer.from('a')));
    },
    async (conversation) => {
      expect(await conversation.responses.next()).toEqual({ value: 'a', done: false });
      await leave(conversation);
      await cancelled;
    },
  );
});

it('throws when a request cannot be encoded', async () => {
  const failing: GrpcMethod<string, string> = {
    ...ECHO,
    encode: () => {
      throw new RangeError('too large');
    },
  };
  await converse(
    (stream) => stream.respond(HEADERS),
    async ({ requests, responses }) => {
      requests.push('request');
      await expect(responses.next()).rejects.toThrow('too large');
    },
    failing,
  );
});

it('throws when the connection ends', async () => {
  await converse(
    (stream) => {
      stream.respond(HEADERS);
      stream.write(framed(Buffer.from('a')), () => stream.session?.socket.destroy());
    },
    async ({ responses }) => {
      await expect(all(responses)).rejects.toThrow('the server closed the connection');
    },
  );
});
