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

/** Bounds the handshakes of a cold process; a request beyond it waits for a free connection. */
const MOST_CONNECTIONS = 8;
const IDLE_MS = 60_000;

/** HTTP over connections that stay open; new ones are made when certificates change. */
export class Transport {
  #agent: { readonly agent: http.Agent; readonly tls: TlsMaterial; readonly isTls: boolean } | undefined;
  readonly #agents = new Set<http.Agent>();

  /** Sends one request once. Rejects when no complete answer comes. */
  async send(session: Session, request: RawRequest, signal: AbortSignal): Promise<RawAnswer> {
    const { server } = session;
    const agent = this.#agentFor(session);
    return new Promise((resolve, reject) => {
      const path = `${server.pathname.replace(/\/$/, '')}${request.path}`;
      const headers = {
        ...request.headers,
        ...(request.body === undefined ? {} : { 'content-length': String(Buffer.byteLength(request.body)) }),
      };
      const options = {
        host: bareHost(server),
        port: server.port,
        method: request.method,
        path,
        headers,
        agent,
        signal,
      };
      const sent = (server.protocol === 'https:' ? https : http).request(options, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text });
        });
      });
      sent.on('error', reject);
      sent.end(request.body);
    });
  }

  close(): void {
    for (const agent of this.#agents) agent.destroy();
    this.#agents.clear();
    this.#agent = undefined;
  }

  #agentFor({ server, tls }: Session): http.Agent {
    const isTls = server.protocol === 'https:';
    if (this.#agent !== undefined && this.#agent.isTls === isTls && sameTls(this.#agent.tls, tls)) {
      return this.#agent.agent;
    }
    const options = { keepAlive: true, maxSockets: MOST_CONNECTIONS, timeout: IDLE_MS };
    const agent = isTls ? new https.Agent({ ...options, ...tls }) : new http.Agent(options);
    // The one before may still carry requests; what idles on it ends by itself.
    this.#agents.add(agent);
    this.#agent = { agent, tls, isTls };
    return agent;
  }
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
