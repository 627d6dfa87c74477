import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { timeLimit } from '../../base/clock.ts';
import { Http2Session } from '../../base/http2/http2-session.ts';
import type { Http2Stream, ResponseFields } from '../../base/http2/http2-stream.ts';
import { untilAborted } from '../../base/until-aborted.ts';
import type { EtcdTls } from './tls-files.ts';

/** After this long without data from the server, a connection is tested before the next request. */
const QUIET_MS = 10_000;

/** One request with one message, and its response. */
export interface UnaryRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly signal: AbortSignal;
}

export interface UnaryResponse extends ResponseFields {
  readonly body: Buffer;
}

export interface ConnectionOptions {
  /** Empty for an unencrypted endpoint. */
  readonly tls: EtcdTls;
  readonly connectMs: number;
}

/**
 * One HTTP/2 connection to one endpoint, opened when first needed and again when lost. It counts as open only when the
 * server has sent its settings, so that no request goes to one that accepts connections and never answers. Does not keep
 * the process running between requests with one message.
 */
export class Http2Connection {
  readonly #origin: string;
  readonly #options: ConnectionOptions;
  #session: Http2Session | undefined;
  #opening: Promise<Http2Session> | undefined;
  #receivedAtMs = 0;

  constructor(origin: string, options: ConnectionOptions) {
    this.#origin = origin;
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#session?.isOpen === true;
  }

  /** Resolves when the server is there. Callers at the same time share one attempt. */
  async connect(): Promise<Http2Session> {
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  /** Sends a POST request. Rejects with the reason of the signal when it aborts, and cancels the request. */
  async post(path: string, request: UnaryRequest): Promise<UnaryResponse> {
    const session = await this.connect();
    return session.hold(
      (async () => {
        const stream = await session.request({ method: 'POST', path, ...request });
        const chunks: Buffer[] = [];
        for await (const chunk of stream) chunks.push(chunk);
        const { headers, trailers } = stream;
        return { headers, trailers, body: Buffer.concat(chunks) };
      })(),
    );
  }

  /** Begins a POST request that lasts: it does not keep a process from ending. */
  async stream(path: string, { headers, signal }: Omit<UnaryRequest, 'body'>): Promise<Http2Stream> {
    const session = await untilAborted(this.connect(), signal);
    return session.request({ method: 'POST', path, headers, body: 'follows', signal });
  }

  /** Marks the connection as suspect, to be tested before its next use. */
  suspect(): void {
    this.#receivedAtMs = Number.NEGATIVE_INFINITY;
  }

  close(): void {
    this.#session?.destroy();
    this.#session = undefined;
  }

  async #connect(): Promise<Http2Session> {
    const known = this.#session;
    if (known?.isOpen === true) {
      if (performance.now() - this.#receivedAtMs < QUIET_MS) return known;
      const isAlive = await this.#withinLimit(known, known.ping()).then(
        () => true,
        () => false,
      );
      if (isAlive) return known;
    }
    const url = new URL(this.#origin);
    const session = new Http2Session(socketTo(url, this.#options.tls), url, {
      onData: () => (this.#receivedAtMs = performance.now()),
    });
    // Known from the beginning, so that it can be closed while it opens.
    this.#session = session;
    await this.#withinLimit(session, session.introduced());
    return session;
  }

  /** Waits for the server, and ends the connection when that takes too long. */
  async #withinLimit(session: Http2Session, awaited: Promise<void>): Promise<void> {
    const { connectMs } = this.#options;
    using limit = timeLimit(connectMs);
    const late = (): void => session.destroy(new Error(`no connection within ${String(connectMs)} ms`));
    limit.signal.addEventListener('abort', late, { once: true });
    await session.hold(awaited);
  }
}

function socketTo({ protocol, hostname, port }: URL, tls: EtcdTls): Socket {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  if (protocol === 'http:') return connect({ host, port: port === '' ? 80 : Number(port), noDelay: true });
  const name = isIP(host) === 0 ? { servername: host } : {};
  return connectTls({
    ...tls,
    ...name,
    host,
    port: port === '' ? 443 : Number(port),
    ALPNProtocols: ['h2'],
  }).setNoDelay();
}
