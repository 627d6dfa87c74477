import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import type { Family } from '../../../net/address.ts';

export interface UdpTarget {
  readonly host: string;
  readonly port: number;
}

const HEADERS = { 4: 20 + 8, 6: 40 + 8 };
/** The MTU where that of the interface cannot be read, in bytes: every network has it that carries IPv6. */
const UNREAD_MTU = 1280;

/** Returns the bytes of the IP and UDP headers of a packet to the target. */
export function headerBytes({ host }: UdpTarget): number {
  return HEADERS[familyOf(host)];
}

/** Returns the MTU of the interface of the default route, in bytes: the size of a packet that fills it. Takes files from `read`. */
export async function interfaceMtu({ host }: UdpTarget, read: ReadFile = textOf): Promise<number> {
  const name = await defaultInterface(familyOf(host), read);
  const mtu = name === undefined ? 0 : Number(await read(`/sys/class/net/${name}/mtu`));
  return mtu > 0 ? mtu : UNREAD_MTU;
}

type ReadFile = (path: string) => Promise<string>;

function familyOf(host: string): Family {
  return isIPv6(host) ? 6 : 4;
}

/** Other interfaces of a pod, such as those that kernel modules add to every network namespace, have other MTUs. */
async function defaultInterface(family: Family, read: ReadFile): Promise<string | undefined> {
  const lines = (await read(family === 4 ? '/proc/net/route' : '/proc/net/ipv6_route'))
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  const isDefault = (line: readonly string[]): boolean =>
    family === 4 ? line[1] === '00000000' && line[7] === '00000000' : line[0] === '0'.repeat(32) && line[1] === '00';
  const nameIn = (line: readonly string[]): string | undefined => (family === 4 ? line[0] : line.at(-1));
  return lines
    .filter(isDefault)
    .map(nameIn)
    .find((name) => name !== 'lo');
}

async function textOf(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}

/** Opens a socket of the family. */
export type OpenSocket = (family: Family) => Promise<Socket>;

const openPlain: OpenSocket = async (family) => Promise.resolve(createSocket(family === 6 ? 'udp6' : 'udp4'));

/** Opens a socket of its own, and so of a port of its own, to the target. @throws the error of the system, kernel/failed */
export async function openTo({ host, port }: UdpTarget, open: OpenSocket = openPlain): Promise<Socket> {
  const socket = await open(familyOf(host));
  try {
    socket.connect(port, host);
    await once(socket, 'connect');
  } catch (cause) {
    // An open socket keeps the process alive.
    socket.close();
    throw cause;
  }
  // Errors of the network count as datagrams without an answer.
  socket.on('error', () => undefined);
  return socket;
}

/** Sends the datagram and waits for the same one. Reports whether it came in time. */
export async function isAnswered(
  target: UdpTarget,
  data: Buffer,
  { signal, open }: { readonly signal: AbortSignal; readonly open?: OpenSocket },
): Promise<boolean> {
  let socket: Socket | undefined;
  try {
    socket = await openTo(target, open);
    const answer = once(socket, 'message', { signal }) as Promise<[Buffer]>;
    socket.send(data);
    return (await answer)[0].equals(data);
  } catch {
    return false;
  } finally {
    socket?.close();
  }
}
