import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2';
import { systemClock } from '../../base/clock.ts';
import { EndedAfterHandshake } from './ended-after-handshake.ts';

/** After this long without data from the server, a connection is tested before the next request. */
const QUIET_MS = 10_000;

/**
 * One HTTP/2 connection to one endpoint, opened when first needed and again when lost. It counts as open only when
 * the server has sent its settings, so that no request goes to one that accepts connections and never answers.
 */
export class Http2Connection {
  readonly #origin: string;
  readonly #options: SecureClientSessionOptions;
  readonly #connectMs: number;
  #session: ClientHttp2Session | undefined;
  #opening: Promise<ClientHttp2Session> | undefined;
  #attempt: ClientHttp2Session | undefined;
  #receivedAtMs = 0;
  #testing: { readonly session: ClientHttp2Session; readonly isAlive: Promise<boolean> } | undefined;
  /** Streams that keep the process alive, because a caller waits for their response. */
  readonly #awaited = new Set<ClientHttp2Stream>();
  readonly #streams = new Set<ClientHttp2Stream>();

  constructor(origin: string, options: { readonly tls: SecureClientSessionOptions; readonly connectMs: number }) {
    this.#origin = origin;
    this.#options = options.tls;
    this.#connectMs = options.connectMs;
  }

  get isOpen(): boolean {
    return this.#session !== undefined && !this.#session.closed && !this.#session.destroyed;
  }

  /** Resolves when the server is there. Callers at the same time share one attempt. */
  async connect(): Promise<ClientHttp2Session> {
    const session = this.#session;
    if (session !== undefined && this.isOpen) {
      if (performance.now() - this.#receivedAtMs < QUIET_MS || (await this.#test(session))) return session;
      session.destroy();
      // Another caller may have opened the next one meanwhile.
      if (this.#session === session) this.#session = undefined;
      else if (this.isOpen) return this.connect();
    }
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  /** Opens a request that a caller waits for: it keeps the process running. */
  async request(path: string, headers: OutgoingHttpHeaders): Promise<ClientHttp2Stream> {
    const stream = await this.stream(path, headers);
    const { session } = stream;
    this.#awaited.add(stream);
    session?.ref();
    stream.once('close', () => {
      this.#awaited.delete(stream);
      if (![...this.#awaited].some((other) => other.session === session)) session?.unref();
    });
    return stream;
  }

  /** Opens a request that lasts: it does not keep a process from ending. */
  async stream(path: string, headers: OutgoingHttpHeaders): Promise<ClientHttp2Stream> {
    const session = await this.connect();
    const stream = session.request({ ...headers, ':method': 'POST', ':path': path });
    // For a session that ends in this moment the error comes later, and without a listener would crash the process.
    stream.on('error', () => undefined);
    this.#streams.add(stream);
    stream.once('response', () => this.notifyResponseByteRead());
    stream.once('close', () => this.#streams.delete(stream));
    return stream;
  }

  notifyResponseByteRead(): void {
    this.#receivedAtMs = performance.now();
  }

  /** Marks the connection as suspect, to be probed before its next use. */
  suspect(): void {
    this.#receivedAtMs = Number.NEGATIVE_INFINITY;
  }

  close(): void {
    this.#attempt?.destroy();
    this.#session?.destroy();
    this.#session = undefined;
  }

  async #open(): Promise<ClientHttp2Session> {
    const session = connect(this.#origin, this.#options);
    this.#attempt = session;
    try {
      await introduced(session, { isTls: this.#origin.startsWith('https:'), limitMs: this.#connectMs });
    } catch (cause) {
      session.destroy();
      throw cause;
    } finally {
      this.#attempt = undefined;
    }
    if (session.destroyed) throw new Error('the server closed the connection');
    onSocketEnd(session, (error) => {
      for (const stream of this.#streams) if (stream.session === session) stream.destroy(error);
    });
    // A server that shuts down finishes what it began, but takes nothing new.
    session.once('goaway', () => {
      if (this.#session === session) this.#session = undefined;
    });
    session.unref();
    this.#session = session;
    this.notifyResponseByteRead();
    return session;
  }

  /** One PING for all callers: servers close a connection that sends several, and Node has ten at most on their way. */
  async #test(session: ClientHttp2Session): Promise<boolean> {
    if (this.#testing?.session !== session) {
      const isAlive = this.#isAlive(session).finally(() => {
        if (this.#testing?.session === session) this.#testing = undefined;
      });
      this.#testing = { session, isAlive };
    }
    return this.#testing.isAlive;
  }

  async #isAlive(session: ClientHttp2Session): Promise<boolean> {
    const done = new AbortController();
    // Keeps the process running, which the connection itself does not.
    const late = systemClock.sleep(this.#connectMs, done.signal).then(
      () => false,
      () => false,
    );
    const answered = new Promise<boolean>((resolve) => {
      const isSent = session.ping((error) => {
        if (error === null) this.notifyResponseByteRead();
        resolve(error === null);
      });
      if (!isSent) resolve(false);
    });
    try {
      return await Promise.race([answered, late]);
    } finally {
      done.abort();
    }
  }
}

/** Resolves with the first settings of the server, its first word on every connection. */
async function introduced(
  session: ClientHttp2Session,
  { isTls, limitMs }: { readonly isTls: boolean; readonly limitMs: number },
): Promise<void> {
  const limit = AbortSignal.timeout(limitMs);
  return new Promise((resolve, reject) => {
    let isEncrypted = false;
    const fail = (error: Error): void => reject(isEncrypted ? new EndedAfterHandshake(error) : error);
    session.once('connect', () => {
      // Node emits it for a session that was destroyed just before, which has no socket.
      if (session.destroyed) return;
      isEncrypted = isTls;
      onSocketEnd(session, fail);
    });
    session.once('remoteSettings', () => resolve());
    // Never removed: an error event without a listener would crash the process.
    session.on('error', fail);
    session.once('close', () => fail(new Error('the server closed the connection')));
    limit.addEventListener('abort', () => reject(new Error(`no connection within ${String(limitMs)} ms`)), {
      once: true,
    });
  });
}

/** Listens on the socket too: a session whose socket breaks during a write is destroyed without an error event. */
function onSocketEnd(session: ClientHttp2Session, ended: (error: Error) => void): void {
  session.socket.once('error', ended);
  session.socket.once('close', () => ended(new Error('the server closed the connection')));
}
