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

const IDLE_MS = 60_000;

/** Connections of one set of certificates. */
interface Agents {
  readonly requests: http.Agent;
  readonly streams: http.Agent;
  readonly tls: TlsMaterial;
  readonly isTls: boolean;
}

/** HTTP over connections that stay open; new ones are made when certificates change. */
export class Transport {
  #current: Agents | undefined;
  readonly #all = new Set<http.Agent>();
  readonly #connections: number;

  /** A request for which no connection is free waits for one. */
  constructor(connections: number) {
    this.#connections = connections;
  }

  /** Sends one request once; the answer's body is still to be read. Rejects when none begins. */
  async open(
    session: Session,
    request: RawRequest,
    { signal, quietMs }: { readonly signal: AbortSignal; readonly quietMs?: number },
  ): Promise<http.IncomingMessage> {
    const { server } = session;
    const { requests, streams } = this.#agentsFor(session);
    const agent = quietMs === undefined ? requests : streams;
    return new Promise((resolve, reject) => {
      const path = `${server.pathname.replace(/\/$/, '')}${request.path}`;
      const length = request.body === undefined ? {} : { 'content-length': String(Buffer.byteLength(request.body)) };
      const sent = (server.protocol === 'https:' ? https : http).request({
        host: bareHost(server),
        port: server.port,
        method: request.method,
        path,
        headers: { ...request.headers, ...length },
        agent,
        signal,
      });
      if (quietMs !== undefined) {
        sent.setTimeout(quietMs, () => sent.destroy(new Error(`nothing for ${String(quietMs)} ms`)));
      }
      sent.on('response', (answer) => {
        // A process may end while it only listens.
        if (quietMs !== undefined) answer.socket.unref();
        resolve(answer);
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

/** The whole body. Rejects when it ends too early. */
export async function readAnswer(answer: http.IncomingMessage): Promise<RawAnswer> {
  const chunks: Buffer[] = [];
  // What comes out of a stream without an encoding are buffers; its type does not say so.
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString('utf8');
  return { status: answer.statusCode ?? 0, headers: answer.headers, text };
}

/** Whether the request cannot have reached the server. */
export function isUnsent(cause: unknown): boolean {
  return /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL)$/.test(errnoOf(cause) ?? '');
}

/** Whether the handshake failed because somebody's certificate is not accepted: waiting changes nothing. */
export function isTlsRefusal(cause: unknown): boolean {
  return /^(CERT_|UNABLE_TO_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_|HOSTNAME_|PATH_LENGTH|EPROTO)/.test(
    errnoOf(cause) ?? '',
  );
}

function sameTls(a: TlsMaterial, b: TlsMaterial): boolean {
  return (
    a.ca === b.ca &&
    a.cert === b.cert &&
    a.key === b.key &&
    a.servername === b.servername &&
    a.rejectUnauthorized === b.rejectUnauthorized
  );
}

/** IPv6 without its brackets, as sockets want it. */
function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}
