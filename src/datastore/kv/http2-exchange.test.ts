import { once } from 'node:events';
import { createServer as createHttp2Server, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { Http2Connection } from './http2-connection.ts';
import { encodeHeaders } from '../../base/http2/hpack.ts';
import { encodeFrame, encodeSettings, FLAG, FRAME, SETTING } from '../../base/http2/http2-frames.ts';

const scope: (() => void)[] = [];
afterEach(() => {
  for (const close of scope.splice(0)) close();
});

async function connectTo(server: Http2Server | Server, connectMs = 3000): Promise<Http2Connection> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = new Http2Connection(`http://127.0.0.1:${String(port)}`, { tls: {}, connectMs });
  scope.push(() => {
    connection.close();
    server.close();
  });
  return connection;
}

function http2Server(respond: (stream: ServerHttp2Stream, body: Buffer) => void, settings = {}): Http2Server {
  return createHttp2Server({ settings }).on('stream', (stream) => {
    const chunks: Buffer[] = [];
    stream.on('error', () => undefined);
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => respond(stream, Buffer.concat(chunks)));
  });
}

/** A server that sends these bytes after its settings, in response to the first bytes of a request. */
function rawServer(...frames: readonly Buffer[]): Server {
  return createServer((socket: Socket) => {
    socket.on('error', () => undefined);
    socket.write(encodeFrame({ type: FRAME.settings, flags: 0, stream: 0, payload: Buffer.alloc(0) }));
    let received = 0;
    socket.on('data', (chunk) => {
      const isFirst = received <= 80 && received + chunk.length > 80;
      received += chunk.length;
      if (isFirst) socket.write(Buffer.concat(frames));
    });
  });
}

const frame = (type: number, flags: number, payload: Buffer, stream = 1): Buffer =>
  encodeFrame({ type, flags, stream, payload });
const OK = encodeHeaders([[':status', '200']]);
const REQUEST = { headers: { te: 'trailers' }, body: Buffer.from('request'), signal: new AbortController().signal };

it('sends a large request and receives a large response with headers and trailers, through small windows', async () => {
  const large = Buffer.alloc(3_000_000, 'etcd');
  const headers = { name: 'all of "#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~ Az09 \u00ff\u0080' };
  const server = http2Server(
    (stream, body) => {
      stream.respond({ ':status': 200, ...headers }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ length: String(body.length), long: 'z'.repeat(40_000) }));
      stream.end(body);
    },
    { initialWindowSize: 1000, maxHeaderListSize: 65_535 },
  );
  const connection = await connectTo(server);
  const response = await connection.post('/path', { ...REQUEST, body: large });
  expect(response.body.equals(large)).toBe(true);
  expect(response.headers.get(':status')).toBe('200');
  expect(response.headers.get('name')).toBe(headers.name);
  expect(response.trailers.get('length')).toBe('3000000');
  expect(response.trailers.get('long')).toHaveLength(40_000);
});

it('sends many requests at once over one connection, no more than the server allows', async () => {
  let open = 0;
  let most = 0;
  const server = http2Server(
    (stream, body) => {
      most = Math.max(most, (open += 1));
      setTimeout(() => {
        open -= 1;
        stream.respond({ ':status': 200 });
        stream.end(body);
      }, 5);
    },
    { maxConcurrentStreams: 4 },
  );
  let connections = 0;
  server.on('session', () => (connections += 1));
  const connection = await connectTo(server);
  const texts = Array.from({ length: 50 }, (_, index) => `request ${String(index)}`);
  const responses = await Promise.all(
    texts.map(async (text) => connection.post('/path', { ...REQUEST, body: Buffer.from(text) })),
  );
  expect(responses.map(({ body }) => body.toString())).toEqual(texts);
  expect({ connections, most }).toEqual({ connections: 1, most: 4 });
});

it('answers pings, and skips informational responses and unknown frames', async () => {
  const server = rawServer(
    frame(FRAME.ping, 0, Buffer.alloc(8, 7), 0),
    frame(0xfa, 0xff, Buffer.from('unknown')),
    frame(FRAME.headers, FLAG.endHeaders, encodeHeaders([[':status', '103']])),
    frame(FRAME.headers, FLAG.padded, Buffer.concat([Buffer.of(2), OK, Buffer.alloc(2)])),
    frame(FRAME.continuation, FLAG.endHeaders, encodeHeaders([['name', 'value']])),
    frame(FRAME.data, FLAG.padded | FLAG.endStream, Buffer.from([1, 0x61, 0])),
  );
  const pong = new Promise<boolean>((resolve) => {
    server.on('connection', (socket: Socket) => {
      socket.on('data', (chunk) => {
        if (chunk.includes(frame(FRAME.ping, FLAG.ack, Buffer.alloc(8, 7), 0))) resolve(true);
      });
    });
  });
  const response = await (await connectTo(server)).post('/path', REQUEST);
  expect(response.body.toString()).toBe('a');
  expect(Object.fromEntries(response.headers)).toEqual({ ':status': '200', name: 'value' });
  expect(await pong).toBe(true);
});

it.each([
  ['an interrupted header block', [frame(FRAME.headers, 0, OK), frame(FRAME.data, 0, OK)], 'PROTOCOL_ERROR'],
  ['a continuation of nothing', [frame(FRAME.continuation, FLAG.endHeaders, OK)], 'PROTOCOL_ERROR'],
  ['a push', [frame(FRAME.pushPromise, FLAG.endHeaders, Buffer.alloc(4))], 'PROTOCOL_ERROR'],
  ['data before headers', [frame(FRAME.data, FLAG.endStream, OK)], 'PROTOCOL_ERROR'],
  ['more padding than payload', [frame(FRAME.data, FLAG.padded, Buffer.of(9, 0))], 'PROTOCOL_ERROR'],
  ['headers that cannot be decoded', [frame(FRAME.headers, FLAG.endHeaders, Buffer.of(0x80))], 'COMPRESSION_ERROR'],
  ['a frame that is too large', [frame(FRAME.data, 0, Buffer.alloc(16_385))], 'FRAME_SIZE_ERROR'],
  [
    'header frames without end',
    Array.from({ length: 3000 }, (_, index) =>
      frame(index === 0 ? FRAME.headers : FRAME.continuation, 0, Buffer.alloc(0)),
    ),
    'ENHANCE_YOUR_CALM',
  ],
  [
    'a window that overflows',
    [frame(FRAME.windowUpdate, 0, Buffer.of(0x7f, 0xff, 0xff, 0xff), 0)],
    'FLOW_CONTROL_ERROR',
  ],
  [
    'settings with a window that is too large',
    [frame(FRAME.settings, 0, encodeSettings([[SETTING.initialWindowSize, 2 ** 31]]), 0)],
    'FLOW_CONTROL_ERROR',
  ],
])('ends the connection after %s', async (_what, frames, code) => {
  const connection = await connectTo(rawServer(...frames));
  await expect(connection.post('/path', REQUEST)).rejects.toThrow(code);
});

it('reads a response that is larger than all windows, and lets the server send little ahead of its reader', async () => {
  const piece = Buffer.alloc(2 ** 20, 'x');
  let sent = 0;
  const server = createHttp2Server().on('stream', (stream) => {
    stream.on('error', () => undefined);
    stream.respond({ ':status': 200 });
    const send = (): void => {
      sent += 1;
      if (sent === 20) stream.end(piece);
      else stream.write(piece, send);
    };
    send();
  });
  const connection = await connectTo(server);
  const { headers, signal } = REQUEST;
  const stream = await connection.stream('/path', { headers, signal });
  stream.end();
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(sent).toBeLessThanOrEqual(10);
  let bytes = 0;
  for await (const chunk of stream) bytes += chunk.length;
  expect(bytes).toBe(20 * piece.length);
});

it('finishes requests while the server goes away, and opens a new connection for the next ones', async () => {
  const server = http2Server((stream, body) => {
    stream.session?.goaway();
    setTimeout(() => {
      stream.respond({ ':status': 200 });
      stream.end(body);
    }, 20);
  });
  let connections = 0;
  server.on('session', () => (connections += 1));
  const connection = await connectTo(server);
  for (const count of [1, 2]) {
    expect((await connection.post('/path', REQUEST)).body.toString()).toBe('request');
    expect(connection.isOpen).toBe(false);
    expect(connections).toBe(count);
  }
});

it('rejects requests under way when the server closes the connection', async () => {
  const server = http2Server((stream) => stream.session?.destroy());
  await expect((await connectTo(server)).post('/path', REQUEST)).rejects.toThrow('the server closed the connection');
});

it('gives up on a server that accepts connections and is silent', async () => {
  const connection = await connectTo(createServer(), 50);
  await expect(connection.connect()).rejects.toThrow('no connection within 50 ms');
  expect(connection.isOpen).toBe(false);
});

it('replaces a connection whose server does not answer a ping any more', async () => {
  let sockets = 0;
  const server = createServer((socket) => {
    sockets += 1;
    socket.on('error', () => undefined);
    socket.write(frame(FRAME.settings, 0, Buffer.alloc(0), 0));
  });
  const connection = await connectTo(server, 1000);
  await connection.connect();
  await connection.connect();
  expect(sockets).toBe(1);
  connection.suspect();
  await connection.connect();
  expect(sockets).toBe(2);
});

it('can be closed while it connects', async () => {
  const connection = await connectTo(createServer());
  const connecting = connection.connect();
  await new Promise((resolve) => setImmediate(resolve));
  connection.close();
  await expect(connecting).rejects.toThrow('closed the connection');
});

it('ends a connection whose server demands acknowledgements without end and reads none', async () => {
  const pings = Buffer.concat(Array.from({ length: 10_000 }, () => frame(FRAME.ping, 0, Buffer.alloc(8), 0)));
  const server = createServer((socket: Socket) => {
    socket.on('error', () => undefined);
    socket.write(frame(FRAME.settings, 0, Buffer.alloc(0), 0));
    const flood = (): void => {
      if (!socket.destroyed) socket.write(pings, flood);
    };
    flood();
  });
  const connection = await connectTo(server);
  await expect(connection.post('/path', REQUEST)).rejects.toThrow('ENHANCE_YOUR_CALM');
});
