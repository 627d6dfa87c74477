import type { Duplex } from 'node:stream';
import { NetplugError, reasonOf, toNetplugError } from '../base/errors.ts';
import type { Clock } from '../base/clock.ts';
import { SendQueue } from './send-queue.ts';
import { type StreamFrame, StreamFrameReader } from './stream-frames.ts';

/** The other end of a connection. */
export interface StreamPeer {
  /** When something was last received, by the monotonic clock. */
  readonly receivedMs: number;
  /** Whether what is sent now would wait in memory: the peer takes less than it is sent. */
  readonly isFull: boolean;
  send(frame: Buffer): void;
  /** Sends the frames of the work in one write. */
  together(work: () => void): void;
  /** Sets the longest payload that is accepted from now on. */
  accept(limitBytes: number): void;
  /** Closes the connection, after a last frame if there is one. */
  end(last?: Buffer): void;
}

export interface PeerListener {
  /** A frame is received. What it throws ends the connection. */
  readonly onFrame: (frame: StreamFrame) => void;
  /** The peer takes more again. */
  readonly onDrain: () => void;
  /** The connection has ended: the last call. Undefined when an end was asked for. */
  readonly onEnd: (cause: NetplugError | undefined) => void;
}

/** How long a last frame may take. */
const LAST_MS = 2000;

export interface PeerOptions {
  /** Longest payload that is accepted until a limit is set. */
  readonly limitBytes: number;
  readonly clock: Clock;
  readonly listener: PeerListener;
}

/** Returns the peer at the other end of the stream, which is never given more at once than its high water mark. */
export function peerOver(stream: Duplex, options: PeerOptions): StreamPeer {
  return new OpenPeer(stream, options);
}

class OpenPeer implements StreamPeer {
  readonly #stream: Duplex;
  readonly #clock: Clock;
  readonly #listener: PeerListener;
  readonly #reader: StreamFrameReader;
  /** What the stream has no room for. */
  readonly #queue = new SendQueue();
  receivedMs: number;
  #isOver = false;

  constructor(stream: Duplex, { limitBytes, clock, listener }: PeerOptions) {
    this.#stream = stream;
    this.#clock = clock;
    this.#listener = listener;
    this.#reader = new StreamFrameReader(limitBytes);
    this.receivedMs = clock.monotonic();
    stream.on('data', (bytes: Buffer) => this.#receive(bytes));
    stream.on('drain', () => {
      this.#write();
      if (!this.#isOver && !this.isFull) listener.onDrain();
    });
    stream.on('error', (cause) => this.#fail(lost(reasonOf(cause), cause)));
    stream.on('end', () => this.#fail(lost('the other end closed it')));
    stream.on('close', () => this.#fail(lost('it was closed')));
  }

  get isFull(): boolean {
    return this.#stream.writableNeedDrain;
  }

  send(frame: Buffer): void {
    if (this.#isOver || !this.#stream.writable) return;
    this.#queue.push(frame);
    this.#write();
  }

  together(work: () => void): void {
    this.#stream.cork();
    try {
      work();
    } finally {
      this.#stream.uncork();
    }
  }

  accept(limitBytes: number): void {
    this.#reader.limit = limitBytes;
  }

  end(last?: Buffer): void {
    if (this.#isOver) return;
    if (last === undefined) this.#stream.destroy();
    else {
      for (const rest of this.#queue.take(Infinity)) this.#stream.write(rest);
      this.#stream.end(last, () => this.#stream.destroy());
      // A peer that reads nothing would keep the connection.
      void this.#clock.sleep(LAST_MS, new AbortController().signal).then(() => this.#stream.destroy());
    }
    this.#finish(undefined);
  }

  #write(): void {
    const { writableHighWaterMark, writableLength } = this.#stream;
    const parts = this.#queue.take(writableHighWaterMark - writableLength);
    if (parts.length > 1) this.#stream.cork();
    for (const part of parts) this.#stream.write(part);
    if (parts.length > 1) this.#stream.uncork();
  }

  #receive(bytes: Buffer): void {
    if (this.#isOver) return;
    this.receivedMs = this.#clock.monotonic();
    try {
      for (const frame of this.#reader.push(bytes)) {
        this.#listener.onFrame(frame);
        // What it did may have ended the connection.
        if (this.#isOver) return;
      }
    } catch (cause) {
      this.#fail(toNetplugError(cause));
    }
  }

  #fail(cause: NetplugError): void {
    this.#stream.destroy();
    this.#finish(cause);
  }

  #finish(cause: NetplugError | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.onEnd(cause);
  }
}

function lost(why: string, cause?: unknown): NetplugError {
  return new NetplugError('store/unavailable', `Lost the connection: ${why}`, cause === undefined ? {} : { cause });
}
