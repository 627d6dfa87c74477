import { randomInt } from 'node:crypto';
import { createServer, type ListenOptions } from 'node:net';

/** The kernel gives ports from 32768 on to programs that ask for any. */
const [FIRST, LAST] = [20_000, 32_767];

/** Returns a loopback TCP port without a listener, which no other file of tests gets until this process ends. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, LAST + 1);
    const isOwn = await listens({ path: `\0netplug-test-port-${String(port)}` }, 'for good');
    if (isOwn && (await listens({ host: '127.0.0.1', port }, 'for a moment'))) return port;
  }
}

async function listens(at: ListenOptions, time: 'for good' | 'for a moment'): Promise<boolean> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  server.once('error', () => resolve(false));
  server.listen(at, () => resolve(true));
  const isListening = await promise;
  if (!isListening) return false;
  server.unref();
  if (time === 'for a moment') await new Promise((closed) => server.close(closed));
  return true;
}
