import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Family } from '../../../net/address.ts';
import { aborted } from '../../../base/until-aborted.ts';
import type { Context, Status } from '../ports.ts';

export const PROBE_PORT = 8080;

export interface ServedPorts {
  readonly port: number;
  /** Another port with the same answers, for what a policy is to keep from it. */
  readonly closedPort: number | undefined;
  /** Whether datagrams are answered without fragments, so that one that is too large for the way back is lost. */
  readonly unfragmented: boolean;
}

/**
 * Answers every HTTP request with the name of the host, and every UDP datagram with the same one, until the command is
 * stopped.
 */
export async function serveProbe(
  {
    io,
    ports,
    stopped,
  }: Pick<Context, 'io' | 'stopped'> & { readonly ports: Pick<Context['ports'], 'hostname' | 'openUnfragmented'> },
  { port, closedPort, unfragmented }: ServedPorts,
): Promise<Status> {
  await using scope = new AsyncDisposableStack();
  for (const each of [port, ...(closedPort === undefined ? [] : [closedPort])]) {
    scope.use(await answerHttp(each, () => ({ status: 200, body: `${ports.hostname}\n` })));
    scope.use(await echoDatagrams(each, unfragmented ? ports.openUnfragmented : bound));
    io.stdout(`serving on port ${String(each)}\n`);
  }
  await aborted(stopped);
  return 0;
}

/** Answers HTTP requests until it is disposed. */
export async function answerHttp(
  port: number,
  answer: () => { readonly status: number; readonly body: string },
): Promise<AsyncDisposable> {
  const server = createServer((_, response) => {
    const { status, body } = answer();
    response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(body);
  });
  server.listen(port);
  await once(server, 'listening');
  return {
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function echoDatagrams(port: number, open: Context['ports']['openUnfragmented']): Promise<AsyncDisposable> {
  // A kernel without IPv6 has sockets of IPv4 alone.
  const socket = await open(6, port).catch(async () => open(4, port));
  // An error of one datagram, such as a port that is closed again, concerns no other.
  socket.on('message', (data, { address, port: from }) => socket.send(data, from, address, () => undefined));
  socket.on('error', () => undefined);
  return {
    [Symbol.asyncDispose]: async () => {
      socket.close();
      await once(socket, 'close');
    },
  };
}

async function bound(family: Family, port?: number): Promise<Socket> {
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4');
  try {
    socket.bind(port);
    await once(socket, 'listening');
    return socket;
  } catch (cause) {
    socket.close();
    throw cause;
  }
}
