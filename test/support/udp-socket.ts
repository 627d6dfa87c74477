// UDP between namespaces within one process: a socket stays in the namespace in which it was created.
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { TestNetns } from './netns.ts';
import { within } from './tcp-echo.ts';

const PORT = 5005;
const SILENCE_MS = 300;

/** One socket, which keeps its port: to connection tracking, all that it sends to one address is one flow. */
export interface UdpAsker extends Disposable {
  /** Sends a datagram and returns the answer; undefined without one. */
  readonly ask: (address: string) => Promise<string | undefined>;
}

/** Answers each datagram in the namespace with `<name> <address of the sender>`. */
export async function answerUdp(netns: TestNetns, name: string): Promise<Disposable> {
  const socket = await openIn(netns, PORT);
  socket.on('message', (_, { address, port }) => {
    socket.send(`${name} ${address.replace('::ffff:', '')}`, port, address);
  });
  return { [Symbol.dispose]: () => socket.close() };
}

export async function udpAsker(netns: TestNetns): Promise<UdpAsker> {
  const socket = await openIn(netns, 0);
  return {
    ask: async (address) => {
      const answered = once(socket, 'message', { signal: AbortSignal.timeout(SILENCE_MS) });
      socket.send('?', PORT, address.includes(':') ? address : `::ffff:${address}`);
      return answered.then(
        ([message]) => String(message),
        () => undefined,
      );
    },
    [Symbol.dispose]: () => socket.close(),
  };
}

async function openIn(netns: TestNetns, port: number): Promise<Socket> {
  return within(netns, async () => {
    const socket = createSocket({ type: 'udp6', ipv6Only: false });
    // What comes back from a closed port.
    socket.on('error', () => undefined);
    socket.bind(port, '::');
    await once(socket, 'listening');
    return socket;
  });
}
