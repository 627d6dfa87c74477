import type { Clock } from '../../../base/clock.ts';
import type { Context, Status } from '../ports.ts';
import { udpTargetOf } from './connect.ts';
import { ANSWER_MS, DatagramStream } from './datagram-stream.ts';
import { headerBytes, interfaceMtu, isAnswered, type OpenSocket, type UdpTarget } from './datagrams.ts';
import { flowLines, type FullSizeCounts, largestArriving } from './judge-flow.ts';
import { answerHttp } from './serve-probe.ts';

const EVERY_MS = 50;
/** One of this many datagrams leaves from a port of its own, as a new connection that policies judge anew. */
const FRESH_EVERY = 5;
/** With one of this many goes one that fills a packet: one a second, or 12 kbit/s each way with an MTU of 1500 bytes. */
const FULL_SIZE_EVERY = 20;
/** After a longer pause of this process, answers may have come that it has not read yet. */
const PAUSE_MS = 1000;
/** Time for which everything must be answered again before an outage is over. */
const QUIET_MS = 1000;
/** The longest outage whose end is waited for. */
const OUTAGE_MS = 30_000;
/** The same for full-size packets alone: a path whose MTU has changed does not recover. */
const FULL_SIZE_OUTAGE_MS = 10_000;
/** For the network of a new pod. */
const FIRST_MS = 20_000;
/** So many full-size packets without an answer, while small ones are answered, never got through. */
const NEVER = 3;
/** For the answer to a packet by which the size is found that arrives. */
const SIZE_MS = 1000;

export interface DatagramFlowOptions {
  /** TCP port on which status 200 says that every target has answered. */
  readonly port: number;
  /** URLs to which no full-size packets go. */
  readonly smallOnly: readonly string[];
}

type FlowPorts = Pick<Context['ports'], 'clock' | 'openUnfragmented'>;

/**
 * Sends datagrams to each target, `udp://HOST:PORT`, until the command is stopped or some of them are lost. Then it prints how
 * many and for how long, and returns 1. An answer that comes late, as from a node that was paused, is no loss. Returns 1 as well
 * when full-size packets do not get through from the start.
 */
export async function watchFlow(
  { io, ports, stopped }: Pick<Context, 'io' | 'stopped'> & { readonly ports: FlowPorts },
  urls: readonly string[],
  { port, smallOnly }: DatagramFlowOptions,
): Promise<Status> {
  const { clock } = ports;
  const flows = await Promise.all(
    urls.map(async (url) => {
      const target = udpTargetOf(url);
      const mtu = smallOnly.includes(url) ? undefined : await interfaceMtu(target);
      return new Flow(url, { target, mtu, clock, open: ports.openUnfragmented });
    }),
  );
  await using _ = await answerHttp(port, () => {
    const silent = flows.filter(({ isAnswering }) => !isAnswering).map(({ url }) => url);
    return silent.length === 0
      ? { status: 200, body: 'every target answers\n' }
      : { status: 503, body: `no answer: ${silent.join(', ')}\n` };
  });
  let isBroken = false;
  for (let tick = 0, atMs = clock.monotonic(); !isBroken && !stopped.aborted; tick += 1) {
    const isPaused = clock.monotonic() - atMs > PAUSE_MS;
    atMs = clock.monotonic();
    for (const flow of flows) {
      if (!isPaused) flow.judge();
      await flow.send(tick);
    }
    isBroken = flows.some((flow) => flow.isOver());
    await clock.sleep(EVERY_MS, stopped).catch(() => undefined);
  }
  for (const flow of flows) {
    for (const line of await flow.summary(stopped)) io.stdout(`${line}\n`);
    flow.close();
  }
  return isBroken || flows.some(({ hasOverdue }) => hasOverdue) ? 1 : 0;
}

interface FlowParts {
  readonly target: UdpTarget;
  /** Size of full-size packets in bytes; undefined when none are sent. */
  readonly mtu: number | undefined;
  readonly clock: Clock;
  readonly open: OpenSocket;
}

/** Small and full-size datagrams to one target. */
class Flow {
  readonly url: string;
  readonly #target: UdpTarget;
  readonly #clock: Clock;
  readonly #open: OpenSocket;
  readonly #startedMs: number;
  readonly #small: DatagramStream;
  readonly #full: { readonly bytes: number; readonly stream: DatagramStream } | undefined;

  constructor(url: string, { target, mtu, clock, open }: FlowParts) {
    this.url = url;
    this.#target = target;
    this.#clock = clock;
    this.#open = open;
    this.#startedMs = clock.monotonic();
    this.#small = new DatagramStream(target, { clock });
    this.#full = mtu === undefined ? undefined : { bytes: mtu, stream: this.#streamOf(mtu) };
  }

  #streamOf(mtu: number): DatagramStream {
    const payloadBytes = mtu - headerBytes(this.#target);
    return new DatagramStream(this.#target, { clock: this.#clock, payloadBytes, open: this.#open });
  }

  get isAnswering(): boolean {
    return this.#streams().every(({ hasAnswered, hasOverdue }) => hasAnswered && !hasOverdue);
  }

  get hasOverdue(): boolean {
    return this.#streams().some(({ hasOverdue }) => hasOverdue);
  }

  #streams(): readonly DatagramStream[] {
    return [this.#small, ...(this.#full === undefined ? [] : [this.#full.stream])];
  }

  async send(tick: number): Promise<void> {
    await this.#small.send(tick % FRESH_EVERY === 0 ? 'of a port of its own' : 'of the lasting port');
    if (tick % FULL_SIZE_EVERY === 0) await this.#full?.stream.send('of the lasting port');
  }

  judge(): void {
    for (const stream of this.#streams()) stream.judge();
  }

  /** Reports whether an outage has ended or lasts too long, or the target has never answered. */
  isOver(): boolean {
    const nowMs = this.#clock.monotonic();
    if (!this.#small.hasAnswered) return nowMs - this.#startedMs > FIRST_MS;
    // What loses small datagrams ends as these do.
    if (this.#small.hasOverdue || this.#full === undefined) return isOutageOver(this.#small, nowMs, OUTAGE_MS);
    const { stream } = this.#full;
    return stream.hasAnswered ? isOutageOver(stream, nowMs, FULL_SIZE_OUTAGE_MS) : stream.early >= NEVER;
  }

  /** Returns what became of the datagrams. After a loss of full-size packets alone, it finds out first which size arrives. */
  async summary(signal: AbortSignal): Promise<readonly string[]> {
    const small = this.#small.counts();
    return flowLines({ url: this.url, small, fullSize: await this.#fullSize(small.outage === undefined, signal) });
  }

  async #fullSize(isSizeAlone: boolean, signal: AbortSignal): Promise<FullSizeCounts | undefined> {
    if (this.#full === undefined) return undefined;
    const { bytes, stream } = this.#full;
    const neverArrives = !stream.hasAnswered && stream.early >= NEVER;
    const counts = { ...stream.counts(), bytes, neverArrives };
    const isLost = stream.hasOverdue || neverArrives;
    if (!isLost || !isSizeAlone || signal.aborted) return counts;
    const header = headerBytes(this.#target);
    const isThrough = async (size: number): Promise<boolean> =>
      isAnswered(this.#target, Buffer.alloc(size - header), {
        signal: AbortSignal.any([signal, AbortSignal.timeout(SIZE_MS)]),
        open: this.#open,
      });
    const arriving = await largestArriving({ fits: header, most: bytes }, isThrough);
    return { ...counts, now: { interfaceMtu: await interfaceMtu(this.#target), arriving } };
  }

  close(): void {
    for (const stream of this.#streams()) stream.close();
  }
}

function isOutageOver(stream: DatagramStream, nowMs: number, longestMs: number): boolean {
  const bounds = stream.outage();
  return bounds !== undefined && (nowMs - bounds.lastMs > ANSWER_MS + QUIET_MS || nowMs - bounds.fromMs > longestMs);
}
