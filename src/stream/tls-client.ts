import { connect as connectTls, type TLSSocket } from 'node:tls';
import { timeLimit } from '../base/clock.ts';
import { NetplugError, reasonOf } from '../base/errors.ts';
import type { ServerEntry } from './handshake.ts';

/** Time for one address, TLS included. */
const CONNECT_MS = 3000;

/** Returns the name that the certificate of a server is for. */
export function certifiedName(server: string): string {
  return `${server}.netplug-typha`;
}

/**
 * Connects to a server with the certificate of its Lease as the only one that is trusted. Tries its addresses in turn.
 * @throws store/unavailable
 */
export async function connectTo(
  { name, addresses, port, certificate }: Pick<ServerEntry, 'name' | 'addresses' | 'port' | 'certificate'>,
  protocol: string,
  signal: AbortSignal,
): Promise<TLSSocket> {
  const failures: string[] = [];
  for (const host of addresses) {
    signal.throwIfAborted();
    using limit = timeLimit(CONNECT_MS);
    const socket = connectTls({
      host,
      port,
      ca: certificate,
      servername: certifiedName(name),
      ALPNProtocols: [protocol],
      minVersion: 'TLSv1.3',
    });
    try {
      await secured(socket, protocol, AbortSignal.any([signal, limit.signal]));
      return socket;
    } catch (cause) {
      socket.destroy();
      failures.push(`${host}: ${reasonOf(cause)}`);
    }
  }
  throw new NetplugError(
    'store/unavailable',
    `Cannot connect to ${name} on port ${String(port)}: ${failures.join('; ')}`,
    {
      hint: 'Run netplugctl doctor',
      facts: { server: name, port },
    },
  );
}

async function secured(socket: TLSSocket, protocol: string, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  socket.on('error', reject);
  socket.once('close', () => reject(new Error('it was closed')));
  socket.once('secureConnect', () => resolve());
  try {
    if (signal.aborted) onAbort();
    await promise;
    if (socket.alpnProtocol !== protocol) throw new Error('it speaks another protocol');
    socket.setNoDelay(true);
    socket.setKeepAlive(true, CONNECT_MS);
    // It must not keep the process alive.
    socket.unref();
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
