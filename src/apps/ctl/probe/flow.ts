import type { Socket } from 'node:dgram';
import type { Clock } from '../../../base/clock.ts';
import type { Context, Status } from '../ports.ts';
import { udpTargetOf } from './connect.ts';
import { openTo, type UdpTarget } from './datagrams.ts';
import { answerHttp } from './serve-probe.ts';

const EVERY_MS = 50;
/** Of so many datagrams one leaves from a port of its own, as a new connection: policy is asked anew. */
const FRESH_EVERY = 5;
/** Longer than any queue delays a packet. */
const ANSWER_MS = 5000;
/** After a longer pause of this process, answers may have come that it has not read yet. */
const PAUSE_MS = 1000;
/** How long everything must be answered again before an outage is over. */
const QUIET_MS = 1000;
/** The longest outage whose end is waited for. */
const OUTAGE_MS = 30_000;
/** For the network of a new pod. */
const FIRST_MS = 20_000;
const COUNTER_BYTES = 8;

export interface FlowOptions {
  /** TCP port on which status 200 says that every target has answered. */
  readonly port: number;
}

/**
 * Sends datagrams to each target, `udp://HOST:PORT`, until the command is stopped or one of them has no answer. Then it prints
 * what was lost and for how long, and returns 1.
 */
export async function watchFlow(
  {
    io,
    ports: { clock },
    stopped,
  }: Pick<Context, 'io' | 'stopped'> & { readonly ports: Pick<Context['ports'], 'clock'> },
  urls: readonly string[],
  { port }: FlowOptions,
): Promise<Status> {
  const flows = urls.map((url) => new Flow(url, udpTargetOf(url), clock));
  await using _ = await answerHttp(port, () => {
    const silent = flows.filter(({ isAnswered }) => !isAnswered).map(({ url }) => url);
    return silent.length === 0
      ? { status: 200, body: 'every target answers\n' }
      : { status: 503, body: `no answer yet: ${silent.join(', ')}\n` };
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
  return isBroken ? 1 : 0;
}

/** A datagram without an answer so far. */
interface Waiting {
  readonly sentMs: number;
  /** Of this datagram alone. */
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
  #lasting: Socket | undefined;
  #sent = 0n;
  #lost = 0;
  /** When the first answer came. What was sent before does not count: the network of a new pod may not be there yet. */
  #answeredMs: number | undefined;
  /** When the first and the last lost datagram were sent, on the monotonic clock. */
  #outage: { readonly fromMs: number; readonly at: string; lastMs: number } | undefined;

  constructor(url: string, target: UdpTarget, clock: Clock) {
    this.url = url;
    this.#target = target;
    this.#clock = clock;
    this.#startedMs = clock.monotonic();
  }

  get isAnswered(): boolean {
    return this.#answeredMs !== undefined;
  }

  /** Reports whether an outage has ended or lasts too long, or the target has never answered. */
  isOver(): boolean {
    const nowMs = this.#clock.monotonic();
    if (!this.isAnswered) return nowMs - this.#startedMs > FIRST_MS;
    if (this.#outage === undefined) return false;
    const { fromMs, lastMs } = this.#outage;
    return nowMs - lastMs > ANSWER_MS + QUIET_MS || nowMs - fromMs > OUTAGE_MS;
  }

  summary(): string {
    const sent = String(this.#sent);
    if (!this.isAnswered) return `${this.url}: none of ${sent} datagrams was answered`;
    if (this.#outage === undefined) return `${this.url}: ${sent} datagrams sent, none lost`;
    const { at, fromMs, lastMs } = this.#outage;
    const seconds = ((lastMs - fromMs) / 1000).toFixed(1);
    return `${this.url}: ${String(this.#lost)} of ${sent} datagrams lost within ${seconds} s from ${at}`;
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
    for (const [number, { sentMs }] of this.#waiting) {
      if (nowMs - sentMs <= ANSWER_MS) return;
      this.#end(number);
      if (this.#answeredMs === undefined || sentMs < this.#answeredMs) continue;
      this.#lost += 1;
      const at = new Date(this.#clock.now() - (nowMs - sentMs)).toISOString();
      this.#outage ??= { fromMs: sentMs, at, lastMs: sentMs };
      this.#outage.lastMs = sentMs;
    }
  }

  close(): void {
    for (const number of this.#waiting.keys()) this.#end(number);
    this.#lasting?.close();
  }

  #noteAnswer(data: Buffer): void {
    if (data.length !== COUNTER_BYTES || !this.#end(data.readBigUInt64BE())) return;
    this.#answeredMs ??= this.#clock.monotonic();
  }

  /** Reports whether the datagram was still waiting. */
  #end(number: bigint): boolean {
    const waiting = this.#waiting.get(number);
    waiting?.own?.close();
    return this.#waiting.delete(number);
  }
}
