import type { Socket } from 'node:dgram';
import type { Clock } from '../../../base/clock.ts';
import { openTo, type OpenSocket, type UdpTarget } from './datagrams.ts';
import type { StreamCounts } from './judge-flow.ts';

/** Longer than any queue delays a packet. */
export const ANSWER_MS = 5000;
const COUNTER_BYTES = 8;

/** A datagram without an answer so far. */
interface Waiting {
  readonly sentMs: number;
  /** Socket that only this datagram uses. */
  readonly own: Socket | undefined;
}

export interface StreamOptions {
  readonly clock: Clock;
  /** Of each datagram, without headers; 8 unless given. */
  readonly payloadBytes?: number;
  /** Opens the sockets; those of Node.js unless given. */
  readonly open?: OpenSocket;
}

/** Datagrams of one size to one target, and which of them were answered. */
export class DatagramStream {
  readonly #target: UdpTarget;
  readonly #clock: Clock;
  readonly #payloadBytes: number;
  readonly #open: OpenSocket | undefined;
  /** By the number of the datagram, in the order in which they were sent. */
  readonly #waiting = new Map<bigint, Waiting>();
  /** Datagrams that have waited too long. */
  readonly #overdue = new Map<bigint, Waiting>();
  #lasting: Socket | undefined;
  #sent = 0n;
  /** How many have waited too long before the first answer. */
  #early = 0;
  /** When the first answer came. What was sent before does not count: the network of a new pod may not be there yet. */
  #answeredMs: number | undefined;

  constructor(target: UdpTarget, { clock, payloadBytes = COUNTER_BYTES, open }: StreamOptions) {
    this.#target = target;
    this.#clock = clock;
    this.#payloadBytes = payloadBytes;
    this.#open = open;
  }

  get hasAnswered(): boolean {
    return this.#answeredMs !== undefined;
  }

  get hasOverdue(): boolean {
    return this.#overdue.size > 0;
  }

  /** How many datagrams have waited too long before any was answered. */
  get early(): number {
    return this.#early;
  }

  /** Returns when the first and the last of the lost datagrams were sent, on the monotonic clock. */
  outage(): { readonly fromMs: number; readonly lastMs: number } | undefined {
    const times = [...this.#overdue.values()].map(({ sentMs }) => sentMs);
    return times.length === 0 ? undefined : { fromMs: Math.min(...times), lastMs: Math.max(...times) };
  }

  counts(): StreamCounts {
    const bounds = this.outage();
    const at = (ms: number): string => new Date(this.#clock.now() - (this.#clock.monotonic() - ms)).toISOString();
    return {
      sent: Number(this.#sent),
      hasAnswered: this.hasAnswered,
      outage: bounds && {
        lost: this.#overdue.size,
        at: at(bounds.fromMs),
        seconds: (bounds.lastMs - bounds.fromMs) / 1000,
      },
    };
  }

  /** Sends one datagram. An error of the network leaves it without an answer. */
  async send(from: 'of a port of its own' | 'of the lasting port'): Promise<void> {
    const number = this.#sent;
    this.#sent += 1n;
    const isOwn = from === 'of a port of its own';
    const sentMs = this.#clock.monotonic();
    let socket = isOwn ? undefined : this.#lasting;
    socket ??= await openTo(this.#target, this.#open).catch(() => undefined);
    this.#waiting.set(number, { sentMs, own: isOwn ? socket : undefined });
    if (socket === undefined) return;
    if (!isOwn) this.#lasting = socket;
    if (socket.listenerCount('message') === 0) socket.on('message', (data: Buffer) => this.#noteAnswer(data));
    const data = Buffer.alloc(this.#payloadBytes);
    data.writeBigUInt64BE(number);
    socket.send(data, () => undefined);
  }

  /** Notes which datagrams have waited too long. */
  judge(): void {
    const nowMs = this.#clock.monotonic();
    for (const [number, waiting] of this.#waiting) {
      if (nowMs - waiting.sentMs <= ANSWER_MS) return;
      this.#waiting.delete(number);
      if (this.#answeredMs !== undefined && waiting.sentMs >= this.#answeredMs) {
        this.#overdue.set(number, waiting);
        continue;
      }
      this.#early += 1;
      waiting.own?.close();
    }
  }

  close(): void {
    for (const { own } of [...this.#waiting.values(), ...this.#overdue.values()]) own?.close();
    this.#lasting?.close();
  }

  #noteAnswer(data: Buffer): void {
    if (data.length !== this.#payloadBytes) return;
    const number = data.readBigUInt64BE();
    const waiting = this.#waiting.get(number) ?? this.#overdue.get(number);
    if (waiting === undefined) return;
    waiting.own?.close();
    this.#waiting.delete(number);
    this.#overdue.delete(number);
    this.#answeredMs ??= this.#clock.monotonic();
  }
}
