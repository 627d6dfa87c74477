// Packets and connections between namespaces, and what the other side says of them.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Peer } from './fabric-node.ts';
import type { TestNetns } from './netns.ts';
import { PATIENCE_MS, until } from './until.ts';
import { within } from './tcp-echo.ts';

export interface Pair {
  readonly from: Peer;
  readonly to: Peer;
}

const PORT = 7008;
const CONNECT_MS = 10_000;
const DEADLINE_MS = PATIENCE_MS;
const REACH_PERIOD_MS = 250;
const AT_ONCE = 8;
const SHOWN = 6;

/** Every ordered pair of two different ones. */
export function pairsOf(peers: readonly Peer[]): readonly Pair[] {
  return peers.flatMap((from) => peers.filter((to) => to !== from).map((to) => ({ from, to })));
}

/**
 * Sends a packet in either family between each pair, of so many bytes (headers included) when `bytes` is given, which
 * may then not be fragmented. Returns a line for each that was not answered within a second.
 */
export async function pingAll(pairs: readonly Pair[], bytes?: number): Promise<readonly string[]> {
  const tasks = pairs.flatMap(({ from, to }) => addressesOf(to).map((address) => ({ from, to, address })));
  const lines: string[] = [];
  const next = async (): Promise<void> => {
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
      const { from, to, address } = task;
      const answer = await pingOnce(from.netns, address, bytes);
      if (answer !== undefined) lines.push(`${from.name} -> ${to.name} ${address}: ${answer}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
  return lines;
}

/** Waits until every packet of `pingAll` is answered; `describe` adds to the error when some are not. */
export async function expectReached(
  pairs: readonly Pair[],
  describe: () => string = () => '',
  bytes?: number,
): Promise<void> {
  let lost: readonly string[] = [];
  await until(
    async () => (lost = await pingAll(pairs, bytes)).length === 0,
    () => `they reach each other; they do not:\n${lost.slice(0, SHOWN).join('\n')}\n${describe()}`,
    PATIENCE_MS,
    REACH_PERIOD_MS,
  );
}

/** Undefined when it comes back, otherwise what ping says. */
export async function pingOnce(netns: TestNetns, address: string, bytes?: number): Promise<string | undefined> {
  const headers = address.includes(':') ? 48 : 28;
  const size = bytes === undefined ? [] : ['-M', 'do', '-s', String(bytes - headers)];
  try {
    await netns.exec('ping', '-n', '-c', '1', '-W', '1', ...size, address);
    return undefined;
  } catch (cause) {
    const { stdout = '', stderr = '' } = cause as { stdout?: string; stderr?: string };
    return `${stdout}${stderr}`
      .split('\n')
      .slice(1)
      .filter((line) => /^[^-]/.test(line))
      .join('; ');
  }
}

/** Answers what is sent to it with a digest, and with the address it was sent from. */
export async function receiveInside({ netns }: Pick<Peer, 'netns'>): Promise<Disposable> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const hash = createHash('sha256');
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk) => hash.update(chunk));
    socket.on('end', () => socket.end(`${hash.digest('hex')} ${(socket.remoteAddress ?? '').replace('::ffff:', '')}`));
  });
  await within(netns, async () => {
    server.listen(PORT, '::');
    await once(server, 'listening');
  });
  return { [Symbol.dispose]: () => void server.close() };
}

export interface Transfer {
  /** Whether what arrived is what was sent. */
  readonly isIntact: boolean;
  /** The sender's address as the receiver saw it. */
  readonly seenFrom: string;
}

/** Sends so many bytes over TCP to who receives there; rejects when that takes too long. */
export async function transfer(from: Pick<Peer, 'netns'>, address: string, bytes: number): Promise<Transfer> {
  const payload = randomBytes(bytes);
  const socket = await within(from.netns, async () => {
    const opening = connect({ host: address, port: PORT, allowHalfOpen: true });
    try {
      await once(opening, 'connect', { signal: AbortSignal.timeout(CONNECT_MS) });
      return opening;
    } catch (cause) {
      opening.destroy();
      throw new Error(`no connection to ${address}`, { cause });
    }
  });
  let answer = '';
  socket.setEncoding('utf8').on('data', (text: string) => (answer += text));
  socket.end(payload);
  try {
    await once(socket, 'end', { signal: AbortSignal.timeout(DEADLINE_MS) });
  } finally {
    socket.destroy();
  }
  const [digest, seenFrom = ''] = answer.split(' ');
  return { isIntact: digest === createHash('sha256').update(payload).digest('hex'), seenFrom };
}

/** Those it has. */
export function addressesOf({ addresses: { ipv4, ipv6 } }: Pick<Peer, 'addresses'>): readonly string[] {
  return [ipv4, ipv6].filter((address) => address !== '');
}
