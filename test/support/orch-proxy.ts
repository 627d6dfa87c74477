// Stands between netplug and the API server and gets in the way.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { request } from 'node:https';
import { pipeline } from 'node:stream/promises';
import type { ApiServer } from './kube.ts';

/** What becomes of one request. */
export type Fate =
  | 'pass'
  /** Carried out, and the connection ends without the answer. */
  | 'lose the answer'
  /** The connection ends before the server sees it. */
  | 'lose the request'
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>> };

export interface Proxy extends AsyncDisposable {
  readonly url: string;
  /** Method and path of what came in, without the query. */
  readonly seen: readonly string[];
  /** How many bytes have been answered, by path. */
  readonly bytes: ReadonlyMap<string, number>;
  /** Ends every connection, also those of watches. */
  cut(): void;
  /** Decides about every request from now on; it may take its time. */
  fate: (method: string, url: URL) => Promise<Fate> | Fate;
}

/** A proxy that speaks plain HTTP and calls the API server with the token. */
export async function startProxy(server: ApiServer, token: string): Promise<Proxy> {
  const ca = readFileSync(server.caFile, 'utf8');
  const seen: string[] = [];
  const bytes = new Map<string, number>();
  let fate: Proxy['fate'] = () => 'pass';
  const forward = async (from: IncomingMessage): Promise<IncomingMessage> => {
    const parts: Buffer[] = [];
    for await (const part of from) parts.push(part as Buffer);
    const sent = Buffer.concat(parts);
    return new Promise((resolve, reject) => {
      const { 'content-type': type = 'application/json', accept = '*/*' } = from.headers;
      const headers = {
        authorization: `Bearer ${token}`,
        'content-type': type,
        accept,
        'content-length': sent.length,
      };
      const to = request(new URL(from.url ?? '', server.url), { method: from.method, ca, headers }, resolve);
      to.on('error', reject);
      to.end(sent);
    });
  };
  const serve = async (from: IncomingMessage, to: ServerResponse): Promise<void> => {
    const url = new URL(from.url ?? '', server.url);
    seen.push(`${from.method ?? ''} ${url.pathname}`);
    const what = await fate(from.method ?? '', url);
    if (what === 'lose the request') return void from.socket.destroy();
    if (typeof what === 'object') return void to.writeHead(what.status, what.headers).end('{}');
    const answer = await forward(from);
    to.once('close', () => answer.destroy());
    if (what === 'lose the answer') return void from.socket.destroy();
    answer.on('data', (part: Buffer) => bytes.set(url.pathname, (bytes.get(url.pathname) ?? 0) + part.length));
    to.writeHead(answer.statusCode ?? 0, { 'content-type': answer.headers['content-type'] ?? '' });
    // A watch has much to wait for before there is anything in its answer.
    to.flushHeaders();
    await pipeline(answer, to);
  };
  const proxy = createServer((from, to) => {
    serve(from, to).catch(() => from.socket.destroy());
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const address = proxy.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    url: `http://127.0.0.1:${String(address.port)}`,
    seen,
    bytes,
    cut: () => proxy.closeAllConnections(),
    get fate() {
      return fate;
    },
    set fate(next) {
      fate = next;
    },
    [Symbol.asyncDispose]: async () => {
      proxy.closeAllConnections();
      proxy.close();
      await once(proxy, 'close');
    },
  };
}
