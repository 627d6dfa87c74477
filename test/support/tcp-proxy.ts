// Stands between a client and a server as a wire does, and can be cut or fall silent.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  /** Carried so far, in both directions. */
  readonly bytes: number;
  /** Of clients, open now. */
  readonly connections: number;
  /** Ends every connection; new ones are let through. */
  cut(): void;
  /** Carries nothing any more in either direction, and ends nothing. */
  fallSilent(): void;
  /** Holds what the connections that stand would carry; new ones are let through. */
  hold(): void;
}

/** A proxy on a free loopback port. */
export async function startTcpProxy(to: { readonly port: number }): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const held = new Set<Socket>();
  const clients = new Set<Socket>();
  let isSilent = false;
  let bytes = 0;
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      held.delete(socket);
    });
  };
  const server = createServer((socket) => {
    const upstream = connect(to.port, '127.0.0.1');
    for (const each of [socket, upstream]) keep(each);
    clients.add(socket);
    socket.on('close', () => clients.delete(socket));
    const carry = (from: Socket, into: Socket): void => {
      from.on('data', (data) => {
        if (isSilent || held.has(from)) return;
        bytes += data.length;
        into.write(data);
      });
      from.on('close', () => into.destroy());
    };
    carry(socket, upstream);
    carry(upstream, socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: address.port,
    get bytes() {
      return bytes;
    },
    get connections() {
      return clients.size;
    },
    cut,
    fallSilent: () => {
      isSilent = true;
    },
    hold: () => {
      for (const socket of sockets) held.add(socket);
    },
    [Symbol.asyncDispose]: async () => {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
