import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { Family } from '../../net/address.ts';
import { loadAddon } from './addon.ts';
import { kernelFailure } from './route-socket.ts';

/**
 * Opens a UDP socket, bound to the port or to one of the kernel's choice, that sends every packet whole or not at all, whatever
 * the kernel has learned of the path. One of IPv6 has IPv4 as well. @throws kernel/failed
 */
export async function openUnfragmentedSocket(family: Family, port = 0): Promise<Socket> {
  const fd = loadAddon().openUnfragmented(family, port);
  if (fd < 0) throw kernelFailure('open a socket that does not fragment', fd);
  const socket = createSocket(family === 4 ? 'udp4' : 'udp6');
  // A descriptor is listened on within the call.
  const listening = once(socket, 'listening');
  socket.bind({ fd, exclusive: true });
  await listening;
  return socket;
}
