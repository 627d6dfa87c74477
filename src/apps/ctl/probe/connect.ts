import { randomBytes } from 'node:crypto';
import { isNetplugError, reasonOf } from '../../../base/errors.ts';
import { bareHost } from '../../../kube/transport.ts';
import type { Context, Status } from '../ports.ts';
import { headerBytes, interfaceMtu, isAnswered, type UdpTarget } from './datagrams.ts';

const RETRY_MS = 500;
const ANSWER_MS = 5000;
/** Time for which a closed URL must stay silent: longer than a request takes to be repeated by TCP. */
const SILENT_MS = 3000;

export interface Connections {
  /** URLs that must answer: `http://` or `udp://`. */
  readonly open: readonly string[];
  /** URLs that a policy must keep from answering. */
  readonly closed: readonly string[];
}

/** Returns a fault of the URL at present; undefined when there is none. */
type Attempt = (url: string, signal: AbortSignal) => Promise<string | undefined>;

/** Tries each URL until it is as it should be, and prints those that are not. Returns 1 when there are such. */
export async function connectToAll(context: Context, { open, closed }: Connections): Promise<Status> {
  const { io } = context;
  const tryAll = async (urls: readonly string[], attemptOf: (url: string) => Attempt): Promise<readonly string[]> =>
    (await Promise.all(urls.map(async (url) => retry(context, url, attemptOf(url))))).flat();
  const openAll = async (): Promise<readonly string[]> =>
    tryAll(open, (url) => (url.startsWith('udp:') ? exchangeFullSize : request));
  // The silence of a network that is not there yet would say nothing about policy, nor would that of one which has none any more.
  let lines = await openAll();
  if (lines.length === 0) lines = await tryAll(closed, () => expectSilence);
  if (lines.length === 0 && closed.length > 0) lines = await openAll();
  for (const line of lines) io.stdout(`${line}\n`);
  if (lines.length > 0) return 1;
  const silent = closed.length === 0 ? '' : `, ${String(closed.length)} of ${String(closed.length)} closed ones do not`;
  io.stdout(`${String(open.length)} of ${String(open.length)} URLs answer${silent}\n`);
  return 0;
}

async function retry({ ports: { clock }, signal }: Context, url: string, attempt: Attempt): Promise<readonly string[]> {
  let reason = 'no attempt was made';
  for (;;) {
    const found = await attempt(url, AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]));
    if (found === undefined) return [];
    // At the end of the time an attempt is cut short, and says less than the one before.
    if (!signal.aborted || reason === 'no attempt was made') reason = found;
    const isOver = await clock.sleep(RETRY_MS, signal).then(
      () => false,
      () => true,
    );
    if (isOver) return [`${url}: ${reason}`];
  }
}

const request: Attempt = async (url, signal) => {
  try {
    const response = await fetch(url, { signal });
    return response.ok ? undefined : `HTTP status ${String(response.status)}`;
  } catch (cause) {
    return causeOf(cause);
  }
};

const expectSilence: Attempt = async (url, signal) => {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(SILENT_MS)]);
  const failure = await request(url, limit);
  if (failure === undefined) return 'it answers although a policy forbids it';
  return signal.aborted ? 'whether a policy closes it could not be told in time' : undefined;
};

/** A network with a smaller MTU than that of the pod swallows packets of this size. */
const exchangeFullSize: Attempt = async (url, signal) => {
  const target = udpTargetOf(url);
  const size = (await interfaceMtu(target)) - headerBytes(target);
  const isThrough = async (bytes: number): Promise<boolean> =>
    isAnswered(target, randomBytes(bytes), { signal: AbortSignal.any([signal, AbortSignal.timeout(1000)]) });
  if (await isThrough(size)) return undefined;
  return (await isThrough(1))
    ? `a datagram that fills a packet (${String(size)} bytes) is lost although a small one is answered: the MTU of pods is too large for the network`
    : `no datagram is answered`;
};

/** Reads `udp://HOST:PORT`. */
export function udpTargetOf(url: string): UdpTarget {
  const target = new URL(url);
  return { host: bareHost(target), port: Number(target.port) };
}

function causeOf(cause: unknown): string {
  if (isNetplugError(cause)) return cause.message;
  const inner = cause instanceof Error ? cause.cause : undefined;
  return reasonOf(inner ?? cause);
}
