import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, rename } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { errnoOf, NetplugError, reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';

export interface HealthPorts {
  /** Returns why the program cannot do its work now, a sentence each; empty when it can. */
  readonly notReady: () => Promise<readonly string[]>;
  /** Returns what an administrator must act on although the program can do its work, a sentence each. */
  readonly warnings?: () => readonly string[];
  /** Name of the pod of the program; empty outside of one. */
  readonly pod?: string;
  readonly metrics: MetricsPage;
  readonly log: Log;
}

/** Everything a program measures, in the text format of Prometheus. */
export interface MetricsPage {
  readonly render: () => Promise<string>;
  readonly contentType: string;
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
const ADDRESS_VARIABLES = { health: 'NETPLUG_HEALTH_ADDRESS', metrics: 'NETPLUG_METRICS_ADDRESS' } as const;
const NO_METHOD: Page = { status: 405, text: 'only GET and HEAD\n' };
const NO_PAGE: Page = { status: 404, text: 'there is only /metrics\n' };

interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Serves /healthz, /readyz and /metrics over HTTP. @throws agent/health-failed when it cannot listen on the address */
export async function startHealthServer(address: ListenAddress, ports: HealthPorts): Promise<HealthServer> {
  return listen(address, { ports, server: 'health', pageFor: async (url) => healthPage(ports, url) });
}

/**
 * Serves the pages of `startHealthServer` at a socket that only the user of this process and root may connect to, so that no
 * other user can keep probes from it. Replaces a socket at the path. @throws agent/health-failed when it cannot
 */
export async function startProbeServer(path: string, ports: HealthPorts): Promise<AsyncDisposable> {
  const server = createHttpServer({ ports, server: 'probes', pageFor: async (url) => healthPage(ports, url) });
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  try {
    server.listen({ path: draft });
    await once(server, 'listening');
    await chmod(draft, 0o600);
    await rename(draft, path);
  } catch (cause) {
    server.close();
    throw new NetplugError('agent/health-failed', `Cannot listen at "${path}": ${reasonOf(cause)}`, {
      hint: 'Check the folder of NETPLUG_SOCKET',
      cause,
    });
  }
  return { [Symbol.asyncDispose]: async () => stop(server) };
}

/** Serves /metrics and nothing else. @throws agent/health-failed when it cannot listen on the address */
export async function startMetricsServer(
  address: ListenAddress,
  ports: Pick<HealthPorts, 'metrics' | 'log'>,
): Promise<HealthServer> {
  const pageFor = async (url: string): Promise<Page> =>
    url.split('?')[0] === '/metrics' ? metricsPage(ports.metrics) : NO_PAGE;
  return listen(address, { ports, server: 'metrics', pageFor });
}

interface Served {
  readonly ports: Pick<HealthPorts, 'log'>;
  readonly server: keyof typeof ADDRESS_VARIABLES | 'probes';
  /** Returns the page of a path with its query. */
  readonly pageFor: (url: string) => Promise<Page>;
}

async function listen(
  { host, port }: ListenAddress,
  served: Served & { readonly server: keyof typeof ADDRESS_VARIABLES },
): Promise<HealthServer> {
  const server = createHttpServer(served);
  try {
    server.listen({ host, port });
    await once(server, 'listening');
  } catch (cause) {
    const why = errnoOf(cause) === 'EADDRINUSE' ? 'another process uses this port' : String(cause);
    throw new NetplugError('agent/health-failed', `Cannot listen on ${host} port ${String(port)}: ${why}`, {
      hint: `Set ${ADDRESS_VARIABLES[served.server]} to another address and port, or to an empty string to disable the server`,
      cause,
    });
  }
  return { port: portOf(server), [Symbol.asyncDispose]: async () => stop(server) };
}

function createHttpServer(served: Served): Server {
  const server = createServer(LIMITS, (request, response) => void serve(served, request, response));
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    // Whoever holds connections loses the oldest of them, so that the next one is served.
    const [oldest] = open;
    if (open.size > MAX_CONNECTIONS) oldest?.destroy();
  });
  server.on('listening', () => {
    server.on('error', (cause) => {
      served.ports.log.warning('HTTP server failed', { server: served.server, reason: cause.message });
    });
  });
  return server;
}

async function serve(
  { ports, server, pageFor }: Served,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method, url = '/' } = request;
  const isReading = method === 'GET' || method === 'HEAD';
  const found = isReading ? pageFor(url) : Promise.resolve(NO_METHOD);
  const page = await found.catch((cause: unknown): Page => {
    const reason = reasonOf(cause);
    ports.log.warning('HTTP request failed', { server, reason });
    return { status: 500, text: `${reason}\n` };
  });
  const { status, text, type = 'text/plain; charset=utf-8' } = page;
  const headers = { 'content-type': type, 'content-length': Buffer.byteLength(text), 'cache-control': 'no-store' };
  response.writeHead(status, status === 405 ? { ...headers, allow: 'GET, HEAD' } : headers);
  response.end(method === 'HEAD' ? undefined : text);
}

async function healthPage(ports: HealthPorts, url: string): Promise<Page> {
  const [path = '', query = ''] = url.split('?');
  switch (path) {
    case '/healthz':
      return { status: 200, text: 'ok\n' };
    case '/readyz':
      return readiness(ports, new URLSearchParams(query).get('pod') ?? undefined);
    case '/metrics':
      return metricsPage(ports.metrics);
    default:
      return { status: 404, text: 'there are /healthz, /readyz and /metrics\n' };
  }
}

/** `asked` is the pod that the probe means: pods on the network of one node share the address of this server. */
async function readiness({ notReady, warnings, pod = '' }: HealthPorts, asked: string | undefined): Promise<Page> {
  if (asked !== undefined && asked !== pod) {
    return {
      status: 503,
      text: `pod "${asked}" does not serve here: this is ${pod === '' ? 'no pod' : `pod "${pod}"`}\n`,
    };
  }
  const reasons = await notReady();
  const noted = warnings?.() ?? [];
  const lines = [...(reasons.length === 0 ? ['ok'] : reasons), ...noted.map((warning) => `warning: ${warning}`)];
  return { status: reasons.length === 0 ? 200 : 503, text: lines.map((line) => `${line}\n`).join('') };
}

async function metricsPage({ render, contentType }: MetricsPage): Promise<Page> {
  return { status: 200, text: await render(), type: contentType };
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
