import http from 'node:http';
import https from 'node:https';
import { errnoOf } from '../base/errors.ts';
import type { Session, TlsMaterial } from './session.ts';

export interface RawRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

/** Yields the bytes of a body as they arrive. Rejects when the body ends too early. */
export interface AnswerBody extends AsyncIterable<Buffer> {
  /** Ends the request. */
  destroy: () => unknown;
}

/** An answer whose body is still to be read. */
export interface OpenAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: AnswerBody;
}

export interface OpenOptions {
  readonly signal: AbortSignal;
  /** Marks a stream, such as a watch: it ends after this long without a byte, and does not keep the process alive. */
  readonly quietMs?: number;
}

/** Carries requests to API servers over connections that stay open. */
export interface Transport {
  /** Sends one request once. Rejects when no answer begins. */
  open: (session: Session, request: RawRequest, options: OpenOptions) => Promise<OpenAnswer>;
  close: () => void;
}

const IDLE_MS = 60_000;

/** Connections of one set of certificates. */
interface Agents {
  readonly requests: http.Agent;
  readonly streams: http.Agent;
  readonly tls: TlsMaterial;
  readonly isTls: boolean;
}

/** HTTP/1.1, with a connection of its own for each watch. New connections are made when certificates change. */
export class Http1Transport implements Transport {
  #current: Agents | undefined;
  readonly #all = new Set<http.Agent>();
  readonly #connections: number;

  /** A request for which no connection is free waits for one. */
  constructor(connections: number) {
    this.#connections = connections;
  }

  async open(session: Session, request: RawRequest, { signal, quietMs }: OpenOptions): Promise<OpenAnswer> {
    const { server } = session;
    const { requests, streams } = this.#agentsFor(session);
    const agent = quietMs === undefined ? requests : streams;
    return new Promise((resolve, reject) => {
      const sent = (server.protocol === 'https:' ? https : http).request({
        host: bareHost(server),
        port: server.port,
        method: request.method,
        path: pathOn(server, request),
        headers: headersOf(request),
        agent,
        signal,
      });
      if (quietMs !== undefined) {
        sent.setTimeout(quietMs, () => sent.destroy(new Error(`nothing for ${String(quietMs)} ms`)));
      }
      sent.on('response', (answer) => {
        // A process may end while it only listens.
        if (quietMs !== undefined) answer.socket.unref();
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: answer });
      });
      sent.on('error', reject);
      sent.end(request.body);
    });
  }

  close(): void {
    for (const agent of this.#all) agent.destroy();
    this.#all.clear();
    this.#current = undefined;
  }

  #agentsFor({ server, tls }: Session): Agents {
    const isTls = server.protocol === 'https:';
    if (this.#current !== undefined && this.#current.isTls === isTls && sameTls(this.#current.tls, tls)) {
      return this.#current;
    }
    const make = (maxSockets: number): http.Agent => {
      const options = { keepAlive: true, maxSockets, timeout: IDLE_MS };
      const agent = isTls ? new https.Agent({ ...options, ...tls }) : new http.Agent(options);
      // The one before may still carry requests; what idles on it ends by itself.
      this.#all.add(agent);
      return agent;
    };
    // A watch holds its connection for as long as it lasts, and must not keep requests waiting.
    this.#current = { requests: make(this.#connections), streams: make(Infinity), tls, isTls };
    return this.#current;
  }
}

/** An answer that is longer than the caller wants. */
export class AnswerTooLarge extends Error {}

/** Returns the answer with its whole body. Rejects when the body ends too early. @throws AnswerTooLarge beyond so many bytes */
export async function readAnswer({ status, headers, body }: OpenAnswer, mostBytes = Infinity): Promise<RawAnswer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > mostBytes) {
      body.destroy();
      throw new AnswerTooLarge(`the answer has more than ${String(mostBytes)} bytes`);
    }
    chunks.push(chunk);
  }
  return { status, headers, text: Buffer.concat(chunks).toString('utf8') };
}

/** Returns the path of the request below that of the server. */
export function pathOn({ pathname }: URL, { path }: RawRequest): string {
  return `${pathname.replace(/\/$/, '')}${path}`;
}

/** Returns the headers of the request, with the length of its body. */
export function headersOf({ headers, body }: RawRequest): Readonly<Record<string, string>> {
  return { ...headers, ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }) };
}

/** Whether the request cannot have reached the server. */
export function isUnsent(cause: unknown): boolean {
  return /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|REFUSED_STREAM)$/.test(
    errnoOf(cause) ?? '',
  );
}

/** Reports whether the handshake failed because a certificate was rejected, so that a retry is useless. */
export function isTlsRefusal(cause: unknown): boolean {
  return /^(CERT_|UNABLE_TO_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_|HOSTNAME_|PATH_LENGTH|EPROTO)/.test(
    errnoOf(cause) ?? '',
  );
}

/** Reports whether connections made with one can serve the other. */
export function sameTls(a: TlsMaterial, b: TlsMaterial): boolean {
  return (
    a.ca === b.ca &&
    a.cert === b.cert &&
    a.key === b.key &&
    a.servername === b.servername &&
    a.rejectUnauthorized === b.rejectUnauthorized
  );
}

/** IPv6 without its brackets, as sockets want it. */
export function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}
