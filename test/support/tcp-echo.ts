// TCP between namespaces within one process: a socket stays in the namespace in which it was created.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { type TestNetns, enterNetns } from './netns.ts';

const PORT = 7007;
/** A connection that a policy denies costs a test as long. */
const DEADLINE_MS = 5000;

/**
 * Sends each client in the namespace `<name> <address of the client>`, and echoes what the client sends. With `tickMs` it also
 * sends a byte with that period, whatever the client does.
 */
export async function answerInside(netns: TestNetns, name: string, tickMs?: number): Promise<Disposable> {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    if (tickMs !== undefined) {
      const ticks = setInterval(() => socket.write('.'), tickMs);
      socket.on('close', () => clearInterval(ticks));
    }
    socket.write(`${name} ${(socket.remoteAddress ?? '').replace('::ffff:', '')}`);
    socket.pipe(socket);
  });
  await within(netns, async () => {
    server.listen(PORT, '::');
    await once(server, 'listening');
  });
  return {
    [Symbol.dispose]: () => {
      server.close();
    },
  };
}

/** Returns the greeting for a client in the namespace; rejects at the deadline. */
export async function askFrom(netns: TestNetns, address: string, localAddress?: string): Promise<string> {
  using conversation = await converseFrom(netns, address, localAddress);
  return conversation.greeting;
}

export interface Conversation extends Disposable {
  readonly greeting: string;
  /** Sends the text and returns its echo. */
  echo(text: string): Promise<string>;
  /** Reports whether anything arrives within the time. */
  receives(ms: number): Promise<boolean>;
}

/** Opens a connection from the namespace and keeps it open. */
export async function converseFrom(netns: TestNetns, address: string, localAddress?: string): Promise<Conversation> {
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const socket = await within(netns, async () => {
    const from = localAddress === undefined ? {} : { localAddress };
    const opening = connect({ host: address, port: PORT, ...from });
    try {
      await once(opening, 'connect', { signal });
      return opening;
    } catch (cause) {
      opening.destroy();
      throw cause;
    }
  });
  return {
    greeting: await next(socket),
    echo: async (text) => {
      socket.write(text);
      return next(socket);
    },
    receives: async (ms) =>
      once(socket, 'data', { signal: AbortSignal.timeout(ms) }).then(
        () => true,
        () => false,
      ),
    [Symbol.dispose]: () => {
      socket.destroy();
    },
  };
}

async function next(socket: Socket): Promise<string> {
  const [chunk] = (await once(socket, 'data', { signal: AbortSignal.timeout(DEADLINE_MS) })) as [Buffer];
  return chunk.toString();
}

/** Runs the action in the namespace; sockets that it creates stay there. */
export async function within<T>(netns: TestNetns, action: () => Promise<T>): Promise<T> {
  const inside = enterNetns(netns);
  try {
    return await action();
  } finally {
    inside.leave();
  }
}
