import type { Socket } from 'node:dgram';
import type { Clock } from '../../../base/clock.ts';
import type { Context, Status } from '../ports.ts';
import { udpTargetOf } from './connect.ts';
import { openTo, type UdpTarget } from './datagrams.ts';
import { answerHttp } from './serve-probe.ts';

const EVERY_MS = 50;
/** One of this many datagrams leaves from a port of its own, as a new connection that policies judge anew. */
const FRESH_EVERY = 5;
/** Longer than any queue delays a packet. */
const ANSWER_MS = 5000;
/** After a longer pause of this process, answers may have come that it has not read yet. */
const PAUSE_MS = 1000;
/** Time for which everything must be answered again before an outage is over. */
const QUIET_MS = 1000;
/** The longest outage whose end is waited for. */
const OUTAGE_MS = 30_000;
/** For the network of a new pod. */
const FIRST_MS = 20_000;
const COUNTER_BYTES = 8;

export interface DatagramFlowOptions {
  /** TCP port on which status 200 says that every target has answered. */
  readonly port: number;
}

/**
 * Sends datagrams to each target, `udp://HOST:PORT`, until the command is stopped or some of them are lost. Then it prints how
 * many and for how long, and returns 1. An answer that comes late, as from a node that was paused, is no loss.
 */
export async function watchFlow(
  {
    io,
    ports: { clock },
    stopped,
  }: Pick<Context, 'io' | 'stopped'> & { readonly ports: Pick<Context['ports'], 'clock'> },
  urls: readonly string[],
  { port }: DatagramFlowOptions,
): Promise<Status> {
  const flows = urls.map((url) => new Flow(url, udpTargetOf(url), clock));
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
      await flow.send(tick % FRESH_EVERY === 0 ? 'of a port of its own' : 'of the lasting port');
    }
    isBroken = flows.some((flow) => flow.isOver());
    await clock.sleep(EVERY_MS, stopped).catch(() => undefined);
  }
  for (const flow of flows) {
    io.stdout(`${flow.summary()}\n`);
    flow.close();
  }
  return isBroken || flows.some(({ hasOverdue }) => hasOverdue) ? 1 : 0;
}

/** A datagram without an answer so far. */
interface Waiting {
  readonly sentMs: number;
  /** Socket that only this datagram uses. */
  readonly own: Socket | undefined;
}

/** Datagrams to one target, and which of them were answered. */
class Flow {
  readonly url: string;
  readonly #target: UdpTarget;
  readonly #clock: Clock;
  readonly #startedMs: number;
  /** By the number of the datagram, in the order in which they were sent. */
  readonly #waiting = new Map<bigint, Waiting>();
  /** Datagrams that have waited too long. */
  readonly #overdue = new Map<bigint, Waiting>();
  #lasting: Socket | undefined;
  #sent = 0n;
  /** When the first answer came. What was sent before does not count: the network of a new pod may not be there yet. */
  #answeredMs: number | undefined;

  constructor(url: string, target: UdpTarget, clock: Clock) {
    this.url = url;
    this.#target = target;
    this.#clock = clock;
    this.#startedMs = clock.monotonic();
  }

  get isAnswering(): boolean {
    return this.#answeredMs !== undefined && !this.hasOverdue;
  }

  get hasOverdue(): boolean {
    return this.#overdue.size > 0;
  }

  /** Reports whether an outage has ended or lasts too long, or the target has never answered. */
  isOver(): boolean {
    const nowMs = this.#clock.monotonic();
    if (this.#answeredMs === undefined) return nowMs - this.#startedMs > FIRST_MS;
    const bounds = this.#outage();
    return bounds !== undefined && (nowMs - bounds.lastMs > ANSWER_MS + QUIET_MS || nowMs - bounds.fromMs > OUTAGE_MS);
  }

  summary(): string {
    const sent = String(this.#sent);
    if (this.#answeredMs === undefined) return `${this.url}: none of ${sent} datagrams was answered`;
    const bounds = this.#outage();
    if (bounds === undefined) return `${this.url}: ${sent} datagrams sent, none lost`;
    const { fromMs, lastMs } = bounds;
    const at = new Date(this.#clock.now() - (this.#clock.monotonic() - fromMs)).toISOString();
    const seconds = ((lastMs - fromMs) / 1000).toFixed(1);
    return `${this.url}: ${String(this.#overdue.size)} of ${sent} datagrams lost within ${seconds} s from ${at}`;
  }

  /** Returns when the first and the last of the lost datagrams were sent, on the monotonic clock. */
  #outage(): { readonly fromMs: number; readonly lastMs: number } | undefined {
    const times = [...this.#overdue.values()].map(({ sentMs }) => sentMs);
    return times.length === 0 ? undefined : { fromMs: Math.min(...times), lastMs: Math.max(...times) };
  }

  /** Sends one datagram. An error of the network leaves it without an answer. */
  async send(from: 'of a port of its own' | 'of the lasting port'): Promise<void> {
    const number = this.#sent;
    this.#sent += 1n;
    const isOwn = from === 'of a port of its own';
    const sentMs = this.#clock.monotonic();
    let socket = isOwn ? undefined : this.#lasting;
    socket ??= await openTo(this.#target).catch(() => undefined);
    this.#waiting.set(number, { sentMs, own: isOwn ? socket : undefined });
    if (socket === undefined) return;
    if (!isOwn) this.#lasting = socket;
    if (socket.listenerCount('message') === 0) socket.on('message', (data: Buffer) => this.#noteAnswer(data));
    const data = Buffer.alloc(COUNTER_BYTES);
    data.writeBigUInt64BE(number);
    socket.send(data, () => undefined);
  }

  /** Notes which datagrams have waited too long. */
  judge(): void {
    const nowMs = this.#clock.monotonic();
    for (const [number, waiting] of this.#waiting) {
      if (nowMs - waiting.sentMs <= ANSWER_MS) return;
      this.#waiting.delete(number);
      if (this.#answeredMs !== undefined && waiting.sentMs >= this.#answeredMs) this.#overdue.set(number, waiting);
      else waiting.own?.close();
    }
  }

  close(): void {
    for (const { own } of [...this.#waiting.values(), ...this.#overdue.values()]) own?.close();
    this.#lasting?.close();
  }

  #noteAnswer(data: Buffer): void {
    if (data.length !== COUNTER_BYTES) return;
    const number = data.readBigUInt64BE();
    const waiting = this.#waiting.get(number) ?? this.#overdue.get(number);
    if (waiting === undefined) return;
    waiting.own?.close();
    this.#waiting.delete(number);
    this.#overdue.delete(number);
    this.#answeredMs ??= this.#clock.monotonic();
  }
}
