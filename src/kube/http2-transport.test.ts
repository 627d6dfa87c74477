import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { execFile } from 'node:child_process';
import {
  constants,
  createSecureServer,
  type Http2SecureServer,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { createServer as createHttps } from 'node:https';
import { createServer as createHttp } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startTcpProxy } from '../../test/support/tcp-proxy.ts';
import { type Authority, type KeyPair, makeTlsFolder } from '../../test/support/tls.ts';
import { Http2Transport } from './http2-transport.ts';
import type { Session, TlsMaterial } from './session.ts';
import { isTlsRefusal, isUnsent, type OpenAnswer, type OpenOptions, readAnswer } from './transport.ts';
import { PATIENCE_MS, until } from '../../test/support/until.ts';

const folder = makeTlsFolder();
const MAX_STREAMS = 100;
let authority: Authority;
let keys: { readonly key: string; readonly cert: string };
let ca: string;
let server: Http2SecureServer;
let transport: Http2Transport;
let sessions: ServerHttp2Session[];
/** Paths of the requests that have reached the server. */
let heard: string[];

const never = new AbortController().signal;
const read = ({ keyFile, certFile }: KeyPair): { key: string; cert: string } => ({
  key: readFileSync(keyFile, 'utf8'),
  cert: readFileSync(certFile, 'utf8'),
});
const portOf = (each: Pick<Server, 'address'>): number => (each.address() as AddressInfo).port;
const sessionTo = (port: number, tls: TlsMaterial = { ca }, scheme = 'https'): Session => ({
  server: new URL(`${scheme}://127.0.0.1:${String(port)}`),
  tls,
  credential: { kind: 'none' },
  files: [],
});
const request = (path: string, body?: string) => ({
  method: body === undefined ? 'GET' : 'POST',
  path,
  headers: {},
  body,
});
const ask = async (path: string, to = sessionTo(portOf(server))): Promise<string> =>
  (await readAnswer(await transport.open(to, request(path), { signal: never }))).text;
const open = async (
  path: string,
  options: Partial<OpenOptions> = {},
  to = sessionTo(portOf(server)),
): Promise<OpenAnswer> => transport.open(to, request(path), { signal: never, ...options });

interface Watch {
  readonly status: number;
  /** Reason why the watch ended, or undefined while it lasts. */
  end: string | undefined;
  readonly ended: Promise<unknown>;
}

const watch = async (options: Partial<OpenOptions> = {}, to = sessionTo(portOf(server))): Promise<Watch> => {
  const { status, body } = await open('/watch', { quietMs: 60_000, ...options }, to);
  const drain = async (): Promise<void> => {
    try {
      for await (const _ of body) continue;
      watching.end = 'complete';
    } catch (cause) {
      watching.end = (cause as Error).message;
    }
  };
  const watching: Watch = { status, end: undefined, ended: Promise.resolve().then(drain) };
  return watching;
};

function answer(stream: ServerHttp2Stream, path: string): void {
  heard.push(path);
  switch (path) {
    case '/silence':
      break;
    case '/cut':
      stream.write('{"a":');
      setTimeout(() => stream.session?.destroy(), 20);
      break;
    case '/busy':
      stream.respond({ ':status': 429, 'retry-after': '7' }, { endStream: true });
      break;
    case '/refused':
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      break;
    case '/slow':
      setTimeout(() => stream.end('slow'), 200);
      break;
    case '/watch':
      stream.write('event\n');
      break;
    case '/client': {
      const { socket } = stream.session as ServerHttp2Session;
      stream.end((socket as TLSSocket).getPeerCertificate().subject.CN);
      break;
    }
    case '/echo':
      stream.pipe(stream);
      break;
    default:
      stream.end(`answer to ${path}`);
  }
}

beforeAll(() => {
  authority = folder.authority('ca');
  keys = read(authority.issue('server', ['127.0.0.1']));
  ca = readFileSync(authority.certFile, 'utf8');
});
afterAll(() => folder[Symbol.dispose]());

beforeEach(async () => {
  sessions = [];
  heard = [];
  transport = new Http2Transport({ checkMs: 250 });
  server = createSecureServer({
    ...keys,
    ca,
    requestCert: true,
    rejectUnauthorized: false,
    settings: { maxConcurrentStreams: MAX_STREAMS },
  });
  server.on('session', (each) => {
    sessions.push(each);
    each.on('error', () => undefined);
  });
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    answer(stream, headers[':path'] ?? '');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(() => {
  transport.close();
  for (const each of sessions) each.destroy();
  server.close();
});

describe('requests and watches to one API server', () => {
  it('share one connection, also when the first ones begin at once', async () => {
    const watches = await Promise.all(Array.from({ length: 20 }, async () => watch()));
    const answers = await Promise.all(Array.from({ length: 30 }, async (_, index) => ask(`/${String(index)}`)));
    expect(answers).toEqual(Array.from({ length: 30 }, (_, index) => `answer to /${String(index)}`));
    expect(watches.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    expect(sessions).toHaveLength(1);
  });

  it('wait when there are more than the server allows on a connection', async () => {
    const many = Array.from({ length: 3 * MAX_STREAMS }, async () => ask('/slow'));
    expect(new Set(await Promise.all(many))).toEqual(new Set(['slow']));
    expect(sessions).toHaveLength(1);
  });

  it('carry large bodies in both directions while watches are not read', async () => {
    const watches = await Promise.all(Array.from({ length: 10 }, async () => open('/watch', { quietMs: 60_000 })));
    const body = 'x'.repeat(8_000_000);
    const answer = await transport.open(sessionTo(portOf(server)), request('/echo', body), { signal: never });
    expect((await readAnswer(answer)).text).toBe(body);
    expect(watches).toHaveLength(10);
  });

  it('give status and headers as HTTP/1.1 does', async () => {
    const answer = await open('/busy');
    expect(await readAnswer(answer)).toMatchObject({ status: 429, headers: { 'retry-after': '7' }, text: '' });
  });

  it('end alone when they are aborted', async () => {
    const stop = new AbortController();
    const [stopped, other] = [await watch({ signal: stop.signal }), await watch()];
    const waiting = open('/silence', { signal: stop.signal });
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    await stopped.ended;
    expect(stopped.end).toContain('abort');
    expect(other.end).toBeUndefined();
    expect(await ask('/after')).toBe('answer to /after');
    expect(sessions).toHaveLength(1);
  });

  it('reject answers that the server cuts off', async () => {
    await expect(ask('/cut')).rejects.toThrow('the server');
  });

  it('use a new connection with a changed client certificate, while watches stay on the one before', async () => {
    const first = sessionTo(portOf(server), { ca, ...read(authority.issue('first')) });
    const second = sessionTo(portOf(server), { ca, ...read(authority.issue('second')) });
    const watching = await watch({}, first);
    expect(await ask('/client', first)).toBe('first');
    expect(await ask('/client', second)).toBe('second');
    expect(watching.end).toBeUndefined();
    expect(sessions).toHaveLength(2);
  });
});

describe('a lost connection', () => {
  it('lets requests and watches finish after GOAWAY, and carries no new ones', async () => {
    const watching = await watch();
    const slow = ask('/slow');
    await ask('/');
    sessions[0]?.goaway();
    const connections = async (): Promise<number> => {
      await ask('/new');
      return sessions.length;
    };
    await expect.poll(connections, { timeout: PATIENCE_MS }).toBe(2);
    expect(await slow).toBe('slow');
    expect(watching.end).toBeUndefined();
  });

  it('breaks watches and requests when the server dies, and is made again', async () => {
    await using proxy = await startTcpProxy({ port: portOf(server) });
    const to = sessionTo(proxy.port);
    const watching = await watch({}, to);
    const silent = open('/silence', {}, to);
    // A proxy that has something unread would reset the connection instead.
    await until(() => heard.includes('/silence'), 'the server has the request');
    proxy.cut();
    await expect(silent).rejects.toThrow('the server closed the connection');
    await watching.ended;
    expect(watching.end).toBe('the server closed the connection');
    expect(await ask('/again', to)).toBe('answer to /again');
    expect(sessions).toHaveLength(2);
  });

  it('breaks watches when its PING has no answer', async () => {
    await using proxy = await startTcpProxy({ port: portOf(server) });
    const to = sessionTo(proxy.port);
    const watching = await watch({}, to);
    proxy.hold();
    await watching.ended;
    expect(watching.end).toBe('the server did not answer for 1000 ms');
    expect(await ask('/again', to)).toBe('answer to /again');
  });

  it('fails requests that are sent while its PING has no answer', async () => {
    await using proxy = await startTcpProxy({ port: portOf(server) });
    const to = sessionTo(proxy.port);
    await ask('/', to);
    proxy.hold();
    await expect(ask('/', to)).rejects.toThrow('the server did not answer');
    expect(await ask('/again', to)).toBe('answer to /again');
  });

  it('stays while its PING is answered, however quiet its watches are', async () => {
    const watching = await watch();
    await new Promise((resolve) => setTimeout(resolve, 3000));
    expect(watching.end).toBeUndefined();
    expect(await ask('/')).toBe('answer to /');
    expect(sessions).toHaveLength(1);
  });

  it('is closed when nothing uses it', async () => {
    await ask('/');
    await once(sessions[0] as ServerHttp2Session, 'close');
    expect(await ask('/again')).toBe('answer to /again');
  });
});

describe('a watch', () => {
  it('breaks off alone after its time without a byte', async () => {
    const [quiet, other] = [await watch({ quietMs: 100 }), await watch()];
    await quiet.ended;
    expect(quiet.end).toBe('nothing for 100 ms');
    expect(other.end).toBeUndefined();
  });

  it('does not keep the process alive, and a request does', async () => {
    const program = `
      import { readFileSync } from 'node:fs';
      import { Http2Transport } from '${new URL('./http2-transport.ts', import.meta.url).href}';
      import { readAnswer } from '${new URL('./transport.ts', import.meta.url).href}';
      const session = { server: new URL('https://127.0.0.1:${String(portOf(server))}'), tls: { ca: readFileSync('${authority.certFile}', 'utf8') } };
      const transport = new Http2Transport();
      const open = (path, more) => transport.open(session, { method: 'GET', path, headers: {} }, { signal: new AbortController().signal, ...more });
      await open('/watch', { quietMs: 60000 });
      console.log((await readAnswer(await open('/slow'))).text);`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
    expect(stdout).toBe('slow\n');
  });
});

describe('errors', () => {
  it('say that a request was not sent when no server listens, or the server refuses the stream', async () => {
    const closed = createHttp().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const port = portOf(closed);
    closed.close();
    expect(isUnsent(await ask('/', sessionTo(port)).catch((cause: unknown) => cause))).toBe(true);
    expect(isUnsent(await ask('/refused').catch((cause: unknown) => cause))).toBe(true);
    expect(isUnsent(await ask('/cut').catch((cause: unknown) => cause))).toBe(false);
  });

  it('say that the certificate of the server is not accepted', async () => {
    const other = readFileSync(folder.authority('other').certFile, 'utf8');
    const cause = await ask('/', sessionTo(portOf(server), { ca: other })).catch((error: unknown) => error);
    expect(isTlsRefusal(cause)).toBe(true);
  });
});

describe('HTTP/1.1', () => {
  it('is spoken with a server that does not negotiate HTTP/2', async () => {
    const old = createHttps(keys, (from, to) => to.end(`HTTP/${from.httpVersion}`)).listen(0, '127.0.0.1');
    await once(old, 'listening');
    expect(await ask('/', sessionTo(portOf(old)))).toBe('HTTP/1.1');
    old.close();
  });

  it('is spoken without TLS', async () => {
    const plain = createHttp((from, to) => to.end(`HTTP/${from.httpVersion}`)).listen(0, '127.0.0.1');
    await once(plain, 'listening');
    expect(await ask('/', sessionTo(portOf(plain), {}, 'http'))).toBe('HTTP/1.1');
    plain.close();
  });
});
