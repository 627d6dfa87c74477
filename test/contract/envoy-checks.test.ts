// What a real Envoy asks, as bytes: recorded in test/golden/envoy-1.40/checks.json, from which tests of the sidecar read every day.
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect, createServer, type Socket } from 'node:net';
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { expect, it } from 'vitest';
import { CheckResponse } from '../../proto/gen/authz.ts';
import { serveGrpc } from '../../src/base/http2/grpc-server.ts';
import { CHECK_SOCKET } from '../../src/policy/feed/messages.ts';
import { startEnvoy } from '../support/envoy.ts';
import { newLan } from '../support/lan.ts';
import { newNetns } from '../support/netns.ts';
import type { RecordedCheck } from '../support/recorded-checks.ts';
import { within } from '../support/tcp-echo.ts';
import { until } from '../support/until.ts';

const HTTP_PORT = 8080;
const TCP_PORT = 9000;
const GOLDEN = '../golden/envoy-1.40/checks.json';
const ALLOWED = CheckResponse.encode({ status: { code: 0 }, dynamicMetadata: undefined }).finish();

type Ask = (socket: Socket) => void;

function overHttp1(head: string, ...headers: readonly string[]): Ask {
  return (socket) => void socket.write(`${[head, 'Host: web', ...headers].join('\r\n')}\r\n\r\n`);
}

function overHttp2(headers: Readonly<Record<string, string>>, body?: Buffer): Ask {
  return (socket) => {
    const session = connectHttp2('http://web', { createConnection: () => socket });
    session.on('error', () => undefined);
    session
      .request(headers)
      .on('error', () => undefined)
      .end(body);
  };
}

const ASKED: readonly (readonly [what: string, ask: Ask, at?: { readonly port?: number; readonly family?: 6 }])[] = [
  ['a path with a query', overHttp1('GET /items/1?page=2 HTTP/1.1')],
  ['over IPv6', overHttp1('GET /items/1 HTTP/1.1'), { family: 6 }],
  ['another method', overHttp1('DELETE /items/1 HTTP/1.1')],
  ['a method that nothing knows', overHttp1('PROPFIND /items/1 HTTP/1.1')],
  ['an encoded slash, and two', overHttp1('GET /b%2fc//d HTTP/1.1')],
  ['dots', overHttp1('GET /items/../admin HTTP/1.1')],
  ['encoded dots', overHttp1('GET /items/%2e%2e/admin HTTP/1.1')],
  ['a parameter of a segment', overHttp1('GET /items;v=1/1 HTTP/1.1')],
  ['a whole address', overHttp1('GET http://other/items/1 HTTP/1.1')],
  ['a WebSocket', overHttp1('GET /items/1 HTTP/1.1', 'Connection: Upgrade', 'Upgrade: websocket')],
  ['a long path', overHttp1(`GET /${'long/'.repeat(1000)} HTTP/1.1`)],
  ['encoded bytes of UTF-8', overHttp1('GET /items/%C3%A9%E2%82%AC HTTP/1.1')],
  ['HTTP/2', overHttp2({ ':path': '/items/1' })],
  [
    'gRPC',
    overHttp2({ ':method': 'POST', ':path': '/shop.Items/List', 'content-type': 'application/grpc' }, Buffer.alloc(5)),
  ],
  ['a connection', (socket) => void socket.write('not HTTP'), { port: TCP_PORT }],
];

it('is as recorded', async () => {
  await using scope = new AsyncDisposableStack();
  const lan = scope.use(await newLan());
  const [web, client] = [scope.use(await newNetns()), scope.use(await newNetns())];
  const addresses = await lan.plugIn(web, 2);
  await lan.plugIn(client, 3);
  const checks: Buffer[] = [];
  const recorder = createServer((socket) => {
    serveGrpc(socket, (_, message) => {
      checks.push(Buffer.from(message));
      return { message: ALLOWED };
    });
  });
  const application = createHttpServer((_, response) => response.end());
  const other = createServer((socket) => socket.on('error', () => undefined).resume());
  scope.defer(() => {
    recorder.close();
    other.close();
    application.close().closeAllConnections();
  });
  await within(web, async () => {
    recorder.listen(CHECK_SOCKET);
    application.listen(HTTP_PORT, '::');
    other.listen(TCP_PORT, '::');
    await Promise.all([recorder, application, other].map(async (server) => once(server, 'listening')));
  });
  scope.use(await startEnvoy(web, { httpPorts: [HTTP_PORT] }));
  const recorded: RecordedCheck[] = [];
  for (const [index, [what, ask, { port = HTTP_PORT, family = 4 } = {}]] of ASKED.entries()) {
    const host = family === 6 ? addresses.ipv6 : addresses.ipv4;
    const socket = await within(client, async () => {
      // The same port at each run, because it is in the check.
      const opening = connect({ host, port, localPort: 40_000 + index });
      opening.on('error', () => undefined);
      await once(opening, 'connect');
      return opening;
    });
    ask(socket);
    await until(() => checks.length > index, `the proxy asks about ${what}`, 10_000);
    socket.destroy();
    recorded.push({ what, bytes: steady(checks[index] ?? Buffer.alloc(0)).toString('base64') });
  }
  expect(checks).toHaveLength(ASKED.length);
  await expect(`${JSON.stringify(recorded, undefined, 2)}\n`).toMatchFileSnapshot(GOLDEN);
}, 60_000);

/** Leaves out of a check what differs from run to run: when the request came, and its identifier in the proxy. */
function steady(check: Buffer): Buffer {
  const request = [1, 4];
  return without([...request, 2, 1], without([...request, 1], check));
}

/** Returns the message without the field at the path of field numbers. Other fields stay as they are, whatever they are. */
function without([first, ...rest]: readonly number[], message: Uint8Array): Buffer {
  const reader = new BinaryReader(message);
  const writer = new BinaryWriter();
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    const start = reader.pos;
    if (field === first && rest.length > 0) {
      writer.tag(field, WireType.LengthDelimited).bytes(without(rest, reader.bytes()));
      continue;
    }
    reader.skip(type, field);
    if (field !== first) writer.tag(field, type).raw(message.subarray(start, reader.pos));
  }
  return Buffer.from(writer.finish());
}
