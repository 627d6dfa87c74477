import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { constants } from 'node:crypto';
import { errnoOf, NetplugError, reasonOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { timeLimit } from '../base/clock.ts';
import { type AdmissionPorts, admitClient } from './admit-client.ts';
import { PENDING_LIMITS, PendingConnections, type PendingLimits } from './connection-limits.ts';
import type { OwnCertificate } from './own-certificate.ts';

/** Time for TLS; saying hello has as much. */
const TLS_MS = 10_000;
const BACKLOG = 1024;
/** A connection that was refused counts for its address that much longer. */
const REFUSED_MS = 1000;
/**
 * Most bytes that TLS is given at once. Node keeps two buffers of each connection that are as large as what it was ever given:
 * 16 KB each for less than that, 90 KB for 80.
 */
const WRITE_BYTES = 16 * 1024 - 1;
const NO_TICKET = constants.SSL_OP_NO_TICKET;

export interface TlsServerOptions {
  /** `::` takes both families. */
  readonly host: string;
  /** 0 for any. */
  readonly port: number;
  readonly own: OwnCertificate;
  /** Name of the protocol in ALPN: a client of another one is refused by TLS. */
  readonly protocol: string;
  readonly admission: AdmissionPorts;
  readonly limits?: PendingLimits;
  readonly log: Log;
}

export interface TlsServer extends AsyncDisposable {
  readonly port: number;
  /** Connections whose clients are not known yet. */
  readonly pending: number;
  readonly refused: number;
  /** Accepts no further connection. Those that are open stay. */
  stopListening(): void;
}

/** Listens for clients with TLS 1.3. @throws store/config-invalid when it cannot listen */
export async function startTlsServer(options: TlsServerOptions): Promise<TlsServer> {
  const { host, port, own, log, limits = PENDING_LIMITS } = options;
  const context = createSecureContext({ key: own.key, cert: own.certificate, minVersion: 'TLSv1.3' });
  const pending = new PendingConnections(limits);
  const sockets = new Set<Socket>();
  const over = new AbortController();
  let refused = 0;
  const server = createServer({ noDelay: true, keepAlive: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    const place = pending.add(socket.remoteAddress ?? '', async (hurry) => {
      if (socket.destroyed) return undefined;
      const outcome = await accept(socket, context, { ...options, hurry });
      if (outcome === 'refused') refused += 1;
      log.debug('connection handled', { address: socket.remoteAddress, outcome });
      // A handshake costs the server more than the client, also of one that goes before it is refused.
      return outcome !== 'admitted'
        ? async () => options.admission.clock.sleep(REFUSED_MS, over.signal).catch(() => undefined)
        : undefined;
    });
    if (place === 'taken') return;
    refused += 1;
    socket.destroy();
  });
  server.on('error', (cause) => log.warning('listener failed', { cause: reasonOf(cause) }));
  await listen(server, { host, port });
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    get pending() {
      return pending.count;
    },
    get refused() {
      return refused;
    },
    stopListening: () => server.close(),
    [Symbol.asyncDispose]: async () => {
      over.abort();
      const closed = once(server, 'close');
      const isListening = server.listening;
      server.close();
      for (const socket of sockets) socket.destroy();
      if (isListening) await closed;
    },
  };
}

async function accept(
  socket: Socket,
  secureContext: SecureContext,
  { protocol, admission, hurry }: TlsServerOptions & { readonly hurry: AbortSignal },
): Promise<'admitted' | 'refused' | 'gone'> {
  using limit = timeLimit(TLS_MS);
  const options = {
    isServer: true,
    secureContext,
    ALPNProtocols: [protocol],
    requestCert: false,
    // No tickets: each connection proves itself.
    secureOptions: NO_TICKET,
    // Of the streams under it, and so without a type.
    highWaterMark: WRITE_BYTES,
  };
  const secure = new TLSSocket(socket, options);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  secure.on('secure', () => resolve());
  secure.on('error', reject);
  secure.on('close', () => reject(new Error('closed')));
  for (const signal of [limit.signal, hurry])
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  try {
    await promise;
    if (secure.alpnProtocol !== protocol) throw new Error('another protocol');
  } catch {
    // Whatever reaches the port may break TLS.
    secure.on('error', () => undefined);
    secure.destroy();
    return 'refused';
  }
  return await admitClient(secure, admission, hurry);
}

async function listen(server: Server, { host, port }: { readonly host: string; readonly port: number }): Promise<void> {
  try {
    server.listen({ host, port, backlog: BACKLOG });
    await once(server, 'listening');
  } catch (cause) {
    const isTaken = errnoOf(cause) === 'EADDRINUSE';
    throw new NetplugError(
      'store/config-invalid',
      `Cannot listen on ${host} port ${String(port)}: ${reasonOf(cause)}`,
      {
        hint: isTaken ? `Find what uses the port: ss -ltnp 'sport = ${String(port)}'` : 'Correct the address',
        facts: { host, port },
        cause,
      },
    );
  }
}
