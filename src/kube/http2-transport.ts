import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import { isIP } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { repeat } from '../base/clock.ts';
import { untilAborted } from '../base/until-aborted.ts';
import type { Session, TlsMaterial } from './session.ts';
import {
  type AnswerBody,
  bareHost,
  headersOf,
  Http1Transport,
  type OpenAnswer,
  type OpenOptions,
  pathOn,
  type RawRequest,
  sameTls,
  type Transport,
} from './transport.ts';

/** Intervals at which a connection is checked. A process that was suspended does not count the ones it missed. */
const CHECK = {
  everyMs: 2000,
  /** Without a byte from the server, while a request or a watch is open: a PING is sent. */
  quiet: 5,
  /** Without a byte from the server after the PING: the connection is lost. Before a request times out. */
  unanswered: 4,
  /** Without a request or a watch: the connection is closed. */
  idle: 30,
};
const CONNECT_MS = 10_000;
const HTTP1_CONNECTIONS = 8;
/** For answers of many megabytes over long distances; the default is 64 KiB. */
const WINDOW_BYTES = 1024 * 1024;
const MAX_SESSION_MEGABYTES = 100;

export interface Http2Options {
  /** Interval at which a connection is checked, in milliseconds. */
  readonly checkMs?: number;
}

/**
 * Carries all requests and watches to one API server over one HTTP/2 connection; made for resident programs. Uses
 * HTTP/1.1 without TLS, and with servers that do not negotiate HTTP/2.
 */
export class Http2Transport implements Transport, Disposable {
  #servers: Server[] = [];
  readonly #checkMs: number;

  constructor({ checkMs = CHECK.everyMs }: Http2Options = {}) {
    this.#checkMs = checkMs;
  }

  async open(session: Session, request: RawRequest, options: OpenOptions): Promise<OpenAnswer> {
    const { server, tls } = session;
    let known = this.#servers.find((each) => each.origin === server.origin && sameTls(each.tls, tls));
    if (known === undefined) {
      known = new Server(session, this.#checkMs);
      // Certificates that are replaced leave nothing behind.
      this.#servers = [...this.#servers.filter(({ isUnused }) => !isUnused), known];
    }
    return known.open(session, request, options);
  }

  close(): void {
    for (const server of this.#servers) server.close();
    this.#servers = [];
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** One API server, as reached with one set of certificates. */
class Server {
  readonly origin: string;
  readonly tls: TlsMaterial;
  readonly #checkMs: number;
  readonly #closed = new AbortController();
  #http1: Http1Transport | undefined;
  #current: Connection | undefined;
  #opening: Promise<Connection | undefined> | undefined;

  constructor({ server, tls }: Session, checkMs: number) {
    this.origin = server.origin;
    this.tls = tls;
    this.#checkMs = checkMs;
    if (server.protocol !== 'https:') this.#http1 = new Http1Transport(HTTP1_CONNECTIONS);
  }

  get isUnused(): boolean {
    return this.#http1 === undefined && this.#opening === undefined && this.#current?.isOpen !== true;
  }

  async open(session: Session, request: RawRequest, options: OpenOptions): Promise<OpenAnswer> {
    const connection = await this.#connection(session, options.signal);
    if (connection !== undefined) return connection.open(session, request, options);
    this.#http1 ??= new Http1Transport(HTTP1_CONNECTIONS);
    return this.#http1.open(session, request, options);
  }

  close(): void {
    this.#closed.abort();
    this.#current?.close();
    this.#http1?.close();
  }

  /** Returns the connection, or undefined where HTTP/1.1 is spoken. Callers at the same time share one attempt. */
  async #connection({ server }: Session, signal: AbortSignal): Promise<Connection | undefined> {
    if (this.#http1 !== undefined) return undefined;
    signal.throwIfAborted();
    if (this.#current?.isOpen === true) return this.#current;
    this.#opening ??= this.#connect(server).finally(() => {
      this.#opening = undefined;
    });
    // The work continues for its other callers.
    return untilAborted(this.#opening, signal);
  }

  async #connect(server: URL): Promise<Connection | undefined> {
    const socket = await negotiate(server, this.tls, this.#closed.signal);
    if (socket.alpnProtocol !== 'h2') {
      socket.destroy();
      return undefined;
    }
    this.#current = new Connection(socket, { origin: this.origin, checkMs: this.#checkMs });
    return this.#current;
  }
}

/** One HTTP/2 connection. */
class Connection {
  readonly #socket: TLSSocket;
  readonly #session: ClientHttp2Session;
  readonly #streams = new Set<ClientHttp2Stream>();
  /** Streams that keep the process alive: those whose answer is awaited. */
  readonly #awaited = new Set<ClientHttp2Stream>();
  readonly #ended = new AbortController();
  #isDraining = false;
  #bytesRead = 0;
  #quiet = 0;
  #idle = 0;
  #unanswered: number | undefined;

  constructor(socket: TLSSocket, { origin, checkMs }: { readonly origin: string; readonly checkMs: number }) {
    this.#socket = socket;
    // Before those of the session, which would end the streams as if nothing had happened.
    socket.on('error', (error) => this.#lose(error));
    socket.on('close', () => this.#lose(new Error('the server closed the connection')));
    this.#session = connect(origin, {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
      maxSessionMemory: MAX_SESSION_MEGABYTES,
    });
    this.#session.on('error', (error) => this.#lose(error));
    // A server that shuts down finishes what it began, but takes nothing new.
    this.#session.on('goaway', () => {
      this.#isDraining = true;
    });
    this.#session.once('connect', () => this.#session.setLocalWindowSize(WINDOW_BYTES));
    this.#session.unref();
    repeat(() => this.#check(checkMs), checkMs, this.#ended.signal);
  }

  get isOpen(): boolean {
    return !this.#isDraining && !this.#ended.signal.aborted && !this.#session.closed && !this.#session.destroyed;
  }

  async open({ server }: Session, request: RawRequest, { signal, quietMs }: OpenOptions): Promise<OpenAnswer> {
    signal.throwIfAborted();
    const headers = { ...headersOf(request), ':method': request.method, ':path': pathOn(server, request) };
    const stream = this.#session.request(headers, { signal, endStream: request.body === undefined });
    this.#hold(stream);
    if (this.#quiet > 0) this.#ping();
    return new Promise((resolve, reject) => {
      stream.on('error', (error) =>
        reject(stream.rstCode === constants.NGHTTP2_REFUSED_STREAM ? unsent(error) : error),
      );
      stream.on('close', () => reject(new Error('the server ended the request without an answer')));
      stream.on('response', ({ ':status': status = 0, ...received }) => {
        // A process may end while it only listens.
        if (quietMs !== undefined) this.#release(stream);
        resolve({ status, headers: received, body: bodyOf(stream) });
      });
      if (quietMs !== undefined) {
        stream.setTimeout(quietMs, () => stream.destroy(new Error(`nothing for ${String(quietMs)} ms`)));
      }
      if (request.body !== undefined) stream.end(request.body);
    });
  }

  close(): void {
    this.#lose(new Error('the connection was closed'));
  }

  #hold(stream: ClientHttp2Stream): void {
    this.#streams.add(stream);
    this.#awaited.add(stream);
    this.#session.ref();
    stream.once('close', () => {
      this.#streams.delete(stream);
      this.#release(stream);
    });
  }

  #release(stream: ClientHttp2Stream): void {
    this.#awaited.delete(stream);
    if (this.#awaited.size === 0) this.#session.unref();
  }

  #check(everyMs: number): void {
    this.#idle = this.#streams.size === 0 ? this.#idle + 1 : 0;
    if (this.#idle >= CHECK.idle) return this.close();
    const { bytesRead } = this.#socket;
    this.#quiet = bytesRead === this.#bytesRead ? this.#quiet + 1 : 0;
    this.#bytesRead = bytesRead;
    if (this.#quiet === 0) this.#unanswered = undefined;
    if (this.#unanswered !== undefined) {
      this.#unanswered += 1;
      if (this.#unanswered < CHECK.unanswered) return;
      return this.#lose(new Error(`the server did not answer for ${String(CHECK.unanswered * everyMs)} ms`));
    }
    if (this.#quiet >= CHECK.quiet && this.#streams.size > 0) this.#ping();
  }

  #ping(): void {
    if (this.#unanswered !== undefined || this.#session.destroyed) return;
    this.#unanswered = 0;
    // What counts is that a byte arrives.
    this.#session.ping(() => undefined);
  }

  /** Ends the connection with everything on it. */
  #lose(error: Error): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    for (const stream of this.#streams) stream.destroy(error);
    this.#session.destroy();
    this.#socket.destroy();
  }
}

/** Node ends a stream that the server cancels as if it were complete. */
function bodyOf(stream: ClientHttp2Stream): AnswerBody {
  const chunks = async function* (): AsyncGenerator<Buffer> {
    yield* stream as AsyncIterable<Buffer>;
    if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) throw new Error('the server cut off the answer');
  };
  return { [Symbol.asyncIterator]: chunks, destroy: () => stream.destroy() };
}

/** Opens a TLS connection and agrees on a protocol. */
async function negotiate(server: URL, tls: TlsMaterial, closed: AbortSignal): Promise<TLSSocket> {
  const host = bareHost(server);
  const socket = connectTls({
    ...tls,
    host,
    port: Number(server.port === '' ? '443' : server.port),
    servername: tls.servername ?? (isIP(host) === 0 ? host : ''),
    ALPNProtocols: ['h2', 'http/1.1'],
  });
  socket.setNoDelay(true);
  const limit = AbortSignal.any([closed, AbortSignal.timeout(CONNECT_MS)]);
  const stop = (): void => void socket.destroy(new Error(`no connection within ${String(CONNECT_MS)} ms`));
  limit.addEventListener('abort', stop, { once: true });
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('secureConnect', () => resolve());
      // It stays: an error without a listener would end the process.
      socket.on('error', reject);
      socket.once('close', () => reject(new Error('the server closed the connection')));
    });
    return socket;
  } finally {
    limit.removeEventListener('abort', stop);
  }
}

/** The server says that it has not begun to process the request. */
function unsent(cause: Error): Error {
  return Object.assign(new Error('the server refused the stream', { cause }), { code: 'REFUSED_STREAM' });
}
