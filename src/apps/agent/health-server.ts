import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { errnoOf, NetplugError, reasonOf } from '../../base/errors.ts';
import type { HealthAddress } from '../../config/environment.ts';
import type { Log } from '../../base/log.ts';
import type { Metrics } from './metrics.ts';

export interface HealthPorts {
  /** Why calls cannot be served now, a sentence each; empty when they can. */
  readonly notReady: () => Promise<readonly string[]>;
  readonly metrics: Pick<Metrics, 'render' | 'contentType'>;
  readonly log: Log;
}

export interface HealthServer extends AsyncDisposable {
  readonly port: number;
}

interface Page {
  readonly status: number;
  readonly text: string;
  readonly type?: string;
}

const LIMITS = {
  maxHeaderSize: 8192,
  headersTimeout: 5000,
  requestTimeout: 10_000,
  keepAliveTimeout: 5000,
  connectionsCheckingInterval: 5000,
};
const MAX_CONNECTIONS = 64;

/** Serves /healthz, /readyz and /metrics over HTTP. @throws agent/health-failed when it cannot listen on the address */
export async function startHealthServer({ host, port }: HealthAddress, ports: HealthPorts): Promise<HealthServer> {
  const server = createServer(LIMITS, (request, response) => void serve(ports, request, response));
  server.maxConnections = MAX_CONNECTIONS;
  try {
    server.listen({ host, port });
    await once(server, 'listening');
  } catch (cause) {
    const why = errnoOf(cause) === 'EADDRINUSE' ? 'another process uses this port' : String(cause);
    throw new NetplugError('agent/health-failed', `Cannot listen on ${host} port ${String(port)}: ${why}`, {
      hint: 'Set NETPLUG_HEALTH_ADDRESS to another address and port, or to nothing to switch it off',
      cause,
    });
  }
  server.on('error', (cause) => {
    ports.log.warning('health endpoint failed', { reason: cause.message });
  });
  return { port: portOf(server), [Symbol.asyncDispose]: async () => stop(server) };
}

async function serve(ports: HealthPorts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const page = await pageFor(ports, request).catch((cause: unknown): Page => {
    const reason = reasonOf(cause);
    ports.log.warning('health endpoint failed', { reason });
    return { status: 500, text: `${reason}\n` };
  });
  const { status, text, type = 'text/plain; charset=utf-8' } = page;
  const headers = { 'content-type': type, 'content-length': Buffer.byteLength(text), 'cache-control': 'no-store' };
  response.writeHead(status, status === 405 ? { ...headers, allow: 'GET, HEAD' } : headers);
  response.end(request.method === 'HEAD' ? undefined : text);
}

async function pageFor({ notReady, metrics }: HealthPorts, { method, url = '/' }: IncomingMessage): Promise<Page> {
  if (method !== 'GET' && method !== 'HEAD') return { status: 405, text: 'only GET and HEAD\n' };
  switch (url.replace(/\?.*$/, '')) {
    case '/healthz':
      return { status: 200, text: 'ok\n' };
    case '/readyz': {
      const reasons = await notReady();
      return reasons.length === 0
        ? { status: 200, text: 'ok\n' }
        : { status: 503, text: reasons.map((reason) => `${reason}\n`).join('') };
    }
    case '/metrics':
      return { status: 200, text: await metrics.render(), type: metrics.contentType };
    default:
      return { status: 404, text: 'there are /healthz, /readyz and /metrics\n' };
  }
}

function portOf(server: Server): number {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function stop(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}
