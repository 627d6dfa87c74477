import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, rename } from 'node:fs/promises';
import { STATUS_CODES } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
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

const MAX_HEAD = 8192;
/** Of a connection that sends or takes nothing. */
const IDLE_MS = 5000;
/** More than wait in the queue of the kernel at once: a connection is served before it is the oldest. */
const MAX_CONNECTIONS = 1024;
/** A page that was made serves all who ask within so many times as long as that took, and at most this long. */
const SHARED_FACTOR = 10;
const SHARED_MS = 500;
const ADDRESS_VARIABLES = { health: 'NETPLUG_HEALTH_ADDRESS', metrics: 'NETPLUG_METRICS_ADDRESS' } as const;
const NO_REQUEST: Page = { status: 400, text: 'this is no HTTP request\n' };
const TOO_LONG: Page = { status: 431, text: `a request has at most ${String(MAX_HEAD)} bytes\n` };
const NO_METHOD: Page = { status: 405, text: 'only GET and HEAD\n' };
const NO_PAGE: Page = { status: 404, text: 'there is only /metrics\n' };

interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Serves /healthz, /readyz and /metrics over HTTP. @throws agent/health-failed when it cannot listen on the address */
export async function startHealthServer(address: ListenAddress, ports: HealthPorts): Promise<HealthServer> {
  return listen(address, { ports, server: 'health', pageFor: healthPages(ports) });
}

/**
 * Serves the pages of `startHealthServer` at a socket that only the user of this process and root may connect to, so that no
 * other user can keep probes from it. Each page is made when it is asked for. Replaces a socket at the path.
 * @throws agent/health-failed when it cannot
 */
export async function startProbeServer(path: string, ports: HealthPorts): Promise<AsyncDisposable> {
  const server = createPageServer({ ports, server: 'probes', pageFor: healthPages(ports, (make) => make) });
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

/** Serves the pages of `startHealthServer` at an abstract name of the own network namespace. @throws agent/health-failed when it cannot */
export async function startAbstractHealthServer(name: string, ports: HealthPorts): Promise<AsyncDisposable> {
  const server = createPageServer({ ports, server: 'health', pageFor: healthPages(ports) });
  try {
    server.listen({ path: `\0${name}` });
    await once(server, 'listening');
  } catch (cause) {
    server.close();
    throw new NetplugError('agent/health-failed', `Cannot listen at "@${name}": ${reasonOf(cause)}`, {
      hint: 'Have no other program of the pod at this name',
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
  const metrics = shared(async () => metricsPage(ports.metrics));
  const pageFor = async (url: string): Promise<Page> => (url.split('?')[0] === '/metrics' ? metrics() : NO_PAGE);
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
  const server = createPageServer(served);
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

/**
 * Returns a server that reads one request of a connection, answers it and closes the connection. Any user of the node may send
 * to it, as many requests in a row as fit: one that reads them all would do nothing else.
 */
function createPageServer(served: Served): Server {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    // A client that holds many connections loses the oldest of them, so that the next one is served.
    const [oldest] = open;
    if (oldest !== undefined && open.size > MAX_CONNECTIONS) {
      // Its own end comes after others have connected.
      open.delete(oldest);
      oldest.destroy();
    }
    socket.setTimeout(IDLE_MS).on('timeout', () => socket.destroy());
    socket.on('error', () => socket.destroy());
    readHead(socket, (head) => {
      // A page may take longer.
      socket.setTimeout(0);
      void serve(served, head, socket);
    });
  });
  server.on('listening', () => {
    server.on('error', (cause) => {
      served.ports.log.warning('HTTP server failed', { server: served.server, reason: cause.message });
    });
  });
  connectionsOf.set(server, open);
  return server;
}

const connectionsOf = new WeakMap<Server, ReadonlySet<Socket>>();

/** Reads until the end of the first request; what it has read when that is too long, or not one. */
function readHead(socket: Socket, onHead: (head: string) => void): void {
  let head = '';
  const read = (chunk: Buffer): void => {
    head += chunk.toString('latin1', 0, MAX_HEAD + 1);
    const end = head.indexOf('\r\n\r\n');
    if (end === -1 && head.length <= MAX_HEAD) return;
    socket.off('data', read).pause();
    onHead(end === -1 ? head : head.slice(0, end));
  };
  socket.on('data', read);
}

async function serve({ ports, server, pageFor }: Served, head: string, socket: Socket): Promise<void> {
  const [, method, url = '/'] = /^([A-Z]+) (\S+) HTTP\/1\.[01](?:\r\n|$)/.exec(head) ?? [];
  const page = await pageOf(head, method, async () => pageFor(url)).catch((cause: unknown): Page => {
    const reason = reasonOf(cause);
    ports.log.warning('HTTP request failed', { server, reason });
    return { status: 500, text: `${reason}\n` };
  });
  const { status, text, type = 'text/plain; charset=utf-8' } = page;
  const lines = [
    `HTTP/1.1 ${String(status)} ${STATUS_CODES[status] ?? ''}`,
    `content-type: ${type}`,
    `content-length: ${String(Buffer.byteLength(text))}`,
    'cache-control: no-store',
    ...(status === 405 ? ['allow: GET, HEAD'] : []),
    'connection: close',
  ];
  if (socket.destroyed) return;
  socket.setTimeout(IDLE_MS).once('finish', () => socket.destroy());
  socket.end(`${lines.join('\r\n')}\r\n\r\n${method === 'HEAD' ? '' : text}`);
}

async function pageOf(head: string, method: string | undefined, find: () => Promise<Page>): Promise<Page> {
  if (head.length > MAX_HEAD) return TOO_LONG;
  if (method === undefined) return NO_REQUEST;
  return method === 'GET' || method === 'HEAD' ? find() : NO_METHOD;
}

/** Returns a function that makes something, or returns what was made a moment ago for another who asked. */
function shared<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  let untilMs = Infinity;
  return async () => {
    const beganMs = performance.now();
    if (made !== undefined && beganMs < untilMs) return made;
    untilMs = Infinity;
    const making = make();
    made = making;
    const settle = (): void => {
      const endedMs = performance.now();
      untilMs = endedMs + Math.min(SHARED_MS, SHARED_FACTOR * (endedMs - beganMs));
    };
    making.then(settle, settle);
    return making;
  };
}

function healthPages(ports: HealthPorts, share: typeof shared = shared): (url: string) => Promise<Page> {
  const reasons = share(ports.notReady);
  const metrics = share(async () => metricsPage(ports.metrics));
  return async (url) => healthPage({ ...ports, notReady: reasons }, metrics, url);
}

async function healthPage(ports: HealthPorts, metrics: () => Promise<Page>, url: string): Promise<Page> {
  const [path = '', query = ''] = url.split('?');
  switch (path) {
    case '/healthz':
      return { status: 200, text: 'ok\n' };
    case '/readyz':
      return readiness(ports, new URLSearchParams(query).get('pod') ?? undefined);
    case '/metrics':
      return metrics();
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
  for (const socket of connectionsOf.get(server) ?? []) socket.destroy();
  await closed;
}
