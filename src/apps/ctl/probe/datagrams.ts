import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { join } from 'node:path';

export interface UdpTarget {
  readonly host: string;
  readonly port: number;
}

const INTERFACES = '/sys/class/net';
const HEADERS = { 4: 20 + 8, 6: 40 + 8 };
/** Where no interface tells its MTU. */
const SMALLEST_MTU = 1280;

/** Returns how many bytes fill a packet to the address: the smallest MTU of this network namespace without the headers. */
export async function fullSize({ host }: UdpTarget): Promise<number> {
  const names = (await readdir(INTERFACES).catch(() => [])).filter((name) => name !== 'lo');
  const mtus = await Promise.all(
    names.map(async (name) => Number(await readFile(join(INTERFACES, name, 'mtu'), 'utf8').catch(() => Number.NaN))),
  );
  const known = mtus.filter((mtu) => mtu >= SMALLEST_MTU);
  return (known.length === 0 ? SMALLEST_MTU : Math.min(...known)) - HEADERS[isIPv6(host) ? 6 : 4];
}

/** Opens a socket of its own, and so of a port of its own, to the target. */
export async function openTo({ host, port }: UdpTarget): Promise<Socket> {
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
  // Errors of the network count as datagrams without an answer.
  socket.on('error', () => undefined);
  socket.connect(port, host);
  await once(socket, 'connect');
  return socket;
}

/** Sends the datagram and waits for the same one. Reports whether it came in time. */
export async function isAnswered(target: UdpTarget, data: Buffer, signal: AbortSignal): Promise<boolean> {
  let socket: Socket | undefined;
  try {
    socket = await openTo(target);
    const answer = once(socket, 'message', { signal }) as Promise<[Buffer]>;
    socket.send(data);
    return (await answer)[0].equals(data);
  } catch {
    return false;
  } finally {
    socket?.close();
  }
}
