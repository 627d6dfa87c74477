import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type GrpcHandler, serveGrpc } from './grpc-server.ts';
import { encodeFrame, encodeSettings, FRAME, PREFACE, SETTING } from './http2-frames.ts';
import { encodeHeaders } from './hpack.ts';

let folder: string;
let path: string;
let server: Server;
let handle: GrpcHandler;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'grpc-'));
  path = join(folder, 's');
  handle = (method, message) => (method === '/echo' ? { message } : { error: 12, text: `${method} is not "served"` });
  server = createServer((socket) => {
    serveGrpc(socket, (method, message) => handle(method, message));
  });
  server.listen({ path });
  await once(server, 'listening');
});

afterEach(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

/** The runtime's own client, which shares no code with the server. */
async function withClient<T>(
  use: (session: ClientHttp2Session) => Promise<T>,
  settings: Parameters<typeof connectHttp2>[1] = {},
): Promise<T> {
  const session = connectHttp2('http://localhost', { ...settings, createConnection: () => connect({ path }) });
  session.on('error', () => undefined);
  try {
    return await use(session);
  } finally {
    session.destroy();
  }
}

interface Called {
  readonly status: string | undefined;
  readonly message: Buffer;
  readonly text: string | undefined;
}

async function call(session: ClientHttp2Session, method: string, message: Buffer, first = 0): Promise<Called> {
  const stream = session.request({
    ':method': 'POST',
    ':path': method,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  const head = Buffer.alloc(5);
  head[0] = first;
  head.writeUInt32BE(message.length, 1);
  let fields: IncomingHttpHeaders = {};
  for (const event of ['response', 'trailers'] as const)
    stream.on(event, (more: IncomingHttpHeaders) => (fields = { ...fields, ...more }));
  stream.end(Buffer.concat([head, message]));
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return {
    status: fields['grpc-status'] as string | undefined,
    message: Buffer.concat(chunks).subarray(5),
    text: decodeURIComponent(String(fields['grpc-message'] ?? '')),
  };
}

describe('a server of unary calls', () => {
  it.each([0, 1, 300, 16_384, 65_536])('answers a message of %i bytes', async (length) => {
    const message = Buffer.alloc(length, 7);
    expect(await withClient(async (session) => call(session, '/echo', message))).toEqual({
      status: '0',
      message,
      text: '',
    });
  });

  it('answers a thousand calls at a time, and then others', async () => {
    await withClient(async (session) => {
      for (const round of [1, 2]) {
        const all = Array.from({ length: 1000 }, async (_, at) =>
          call(session, '/echo', Buffer.from(`${String(round)} ${String(at)}`)),
        );
        const answers = await Promise.all(all);
        expect(answers.map(({ message }) => message.toString())).toEqual(
          Array.from({ length: 1000 }, (_, at) => `${String(round)} ${String(at)}`),
        );
      }
    });
  });

  it.each([
    ['of a method that is not served', '/other', Buffer.alloc(1), 0, '12', '/other is not "served"'],
    ['that is compressed', '/echo', Buffer.alloc(1), 1, '12', 'compressed messages are not served'],
    ['that is too large', '/echo', Buffer.alloc(65_537), 0, '8', 'a message has at most 65536 bytes'],
  ])('refuses a call %s, and goes on', async (_, method, message, first, status, text) => {
    await withClient(async (session) => {
      expect(await call(session, method, message, first)).toMatchObject({ status, text });
      expect(await call(session, '/echo', Buffer.from('next'))).toMatchObject({ status: '0' });
    });
  });

  it('sends no more than the client has room for, and the rest once it has', async () => {
    const settings = { settings: { initialWindowSize: 10 } };
    const message = Buffer.alloc(1000, 3);
    await withClient(async (session) => {
      await once(session, 'remoteSettings');
      const stream = session.request({ ':method': 'POST', ':path': '/echo', 'content-type': 'application/grpc' });
      const head = Buffer.from([0, 0, 0, 3, 0xe8]);
      stream.end(Buffer.concat([head, message]));
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      // Answered in between: nothing of the other call blocks the connection.
      expect(await call(session, '/other', Buffer.alloc(0))).toMatchObject({ status: '12' });
      expect(Buffer.concat(chunks).length).toBe(10);
      session.settings({ initialWindowSize: 4096 });
      await once(stream, 'end');
      expect(Buffer.concat(chunks).subarray(5)).toEqual(message);
    }, settings);
  });

  it('refuses what is no gRPC', async () => {
    await withClient(async (session) => {
      const stream = session.request({ ':method': 'GET', ':path': '/' });
      const [fields] = (await once(stream, 'response')) as [IncomingHttpHeaders];
      expect(fields[':status']).toBe(415);
    });
  });
});

describe('a client that breaks the protocol loses its connection', () => {
  const headers = encodeHeaders([
    [':method', 'POST'],
    [':path', '/echo'],
    ['content-type', 'application/grpc'],
  ]);
  const frame = (type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer =>
    encodeFrame({ type, flags, stream, payload });
  const settings = frame(FRAME.settings, 0, 0);

  it.each<[string, Buffer]>([
    ['with another protocol', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['with data of no request', Buffer.concat([PREFACE, settings, frame(FRAME.data, 0, 1)])],
    ['with an even stream', Buffer.concat([PREFACE, settings, frame(FRAME.headers, 4, 2, headers)])],
    ['with a continuation of nothing', Buffer.concat([PREFACE, settings, frame(FRAME.continuation, 4, 1)])],
    [
      'with a block that another frame interrupts',
      Buffer.concat([PREFACE, frame(FRAME.headers, 0, 1, headers), settings]),
    ],
    [
      'with headers in the middle',
      Buffer.concat([PREFACE, frame(FRAME.headers, 4, 1, headers), frame(FRAME.headers, 4, 1, headers)]),
    ],
    [
      'with a block that cannot be decoded',
      Buffer.concat([PREFACE, frame(FRAME.headers, 4, 1, Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff))]),
    ],
    ['with a push', Buffer.concat([PREFACE, frame(FRAME.pushPromise, 4, 1)])],
    [
      'with a window that overflows',
      Buffer.concat([
        PREFACE,
        frame(FRAME.windowUpdate, 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff])),
        frame(FRAME.windowUpdate, 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff])),
      ]),
    ],
    ['with settings of a wrong length', Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0, Buffer.alloc(5))])],
    ['with a frame that is too long', Buffer.concat([PREFACE, Buffer.from([0x7f, 0xff, 0xff, 0, 0, 0, 0, 0, 1])])],
    [
      'with headers without end',
      Buffer.concat([
        PREFACE,
        frame(FRAME.headers, 0, 1, headers),
        ...Array.from({ length: 3000 }, () => frame(FRAME.continuation, 0, 1)),
      ]),
    ],
  ])('%s', async (_, bytes) => {
    const socket = connect({ path });
    socket.on('error', () => undefined);
    socket.write(bytes);
    socket.resume();
    await once(socket, 'close');
    expect(await withClient(async (session) => call(session, '/echo', Buffer.from('a')))).toMatchObject({
      status: '0',
    });
  });

  it('and a connection that comes byte by byte does not', async () => {
    const socket = connect({ path });
    const bytes = Buffer.concat([
      PREFACE,
      settings,
      frame(FRAME.headers, 4, 1, headers),
      frame(FRAME.data, 1, 1, Buffer.alloc(5)),
    ]);
    for (const byte of bytes) {
      socket.write(Buffer.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    const received = await readUntil(socket, (all) => all.includes('grpc-status'));
    expect(received).toContain('application/grpc');
    socket.destroy();
  });
});

it('a client that reads nothing is read no further', async () => {
  const socket = connect({ path });
  const ping = encodeFrame({ type: FRAME.ping, flags: 0, stream: 0, payload: Buffer.alloc(8) });
  const pings = Buffer.concat(Array.from({ length: 4000 }, () => ping));
  socket.write(
    Buffer.concat([
      PREFACE,
      encodeFrame({ type: FRAME.settings, flags: 0, stream: 0, payload: encodeSettings([[SETTING.enablePush, 0]]) }),
    ]),
  );
  let sent = 0;
  while (sent < 200 && socket.writableLength < 4 * 2 ** 20) {
    socket.write(pings);
    sent += 1;
    await new Promise((resolve) => setImmediate(resolve));
  }
  // 13 MB of pings at most: it stopped reading long before.
  expect(sent).toBeLessThan(200);
  socket.destroy();
});

it('requests that do not end hold no more memory than their connection may', async () => {
  handle = () => ({ message: Buffer.alloc(0) });
  await withClient(async (session) => {
    const streams = Array.from({ length: 100 }, () => {
      const stream = session.request({ ':method': 'POST', ':path': '/echo', 'content-type': 'application/grpc' });
      stream.on('error', () => undefined);
      stream.write(Buffer.alloc(60_000));
      return stream;
    });
    const closed = await Promise.race(streams.map(async (stream) => once(stream, 'response')));
    expect((closed[0] as IncomingHttpHeaders)['grpc-status']).toBe('8');
  });
});

it('parts of requests that do not end cost more than their bytes', async () => {
  handle = () => ({ message: Buffer.alloc(0) });
  const socket = connect({ path });
  socket.on('error', () => undefined);
  const part = (flags: number, payload: Buffer): Buffer => encodeFrame({ type: FRAME.data, flags, stream: 1, payload });
  const headers = encodeHeaders([
    [':method', 'POST'],
    [':path', '/echo'],
    ['content-type', 'application/grpc'],
  ]);
  socket.write(Buffer.concat([PREFACE, encodeFrame({ type: FRAME.headers, flags: 4, stream: 1, payload: headers })]));
  // Empty ones cost nothing, because nothing is kept of them.
  for (let at = 0; at < 20; at += 1)
    socket.write(Buffer.concat(Array.from({ length: 1000 }, () => part(0, Buffer.alloc(0)))));
  for (let at = 0; at < 10; at += 1)
    socket.write(Buffer.concat(Array.from({ length: 1000 }, () => part(0, Buffer.of(0)))));
  expect(await readUntil(socket, (all) => all.includes('grpc-status'))).toContain('grpc-message');
  socket.destroy();
});

it.each([
  ['a text that is not well-formed', () => ({ error: 14, text: '\ud800' })],
  [
    'a failure of its own',
    () => {
      throw new Error('broken');
    },
  ],
] as const)('survives %s of a call', async (_, faulty) => {
  handle = (method, message) => (method === '/faulty' ? faulty() : { message });
  await withClient(async (session) => call(session, '/faulty', Buffer.from('a')).catch(() => undefined));
  expect(await withClient(async (session) => call(session, '/echo', Buffer.from('a')))).toMatchObject({ status: '0' });
});

async function readUntil(socket: Socket, isEnough: (all: string) => boolean): Promise<string> {
  let all = '';
  for await (const chunk of socket) {
    all += (chunk as Buffer).toString('latin1');
    if (isEnough(all)) return all;
  }
  return all;
}
