import type { Socket } from 'node:net';
import { timeLimit } from '../../../../base/clock.ts';
import { reasonOf } from '../../../../base/errors.ts';
import { FirstBytes } from '../../../../base/first-bytes.ts';
import {
  type FedPart,
  FORMAT,
  type FromAgent,
  type FromSidecar,
  GREETING,
  type IdentityMode,
  MOST_BYTES,
} from '../../../../policy/feed/messages.ts';
import { jsonFrame, protocolError, StreamFrameReader } from '../../../../stream/stream-frames.ts';
import { readFromSidecar } from './sidecar-messages.ts';

/** Type of all frames: the payload says what it is. */
const MESSAGE = 1;
/** A process that connects says at once that it is a sidecar. */
const HELLO_MS = 5000;
/** Parts that are sent in one piece at most. */
const MOST_UNSENT_BYTES = 64 * 2 ** 20;

export interface SidecarWelcome {
  readonly release: string;
  readonly trustDomains: readonly string[];
  readonly identity: IdentityMode;
}

export interface SessionEvents {
  readonly welcome: () => SidecarWelcome;
  /** Counts a message, and returns whether it may be taken. */
  readonly count: () => boolean;
  /** Called once, when the sidecar has said its release. */
  readonly onHello: (release: string) => void;
  readonly onMessage: (message: Exclude<FromSidecar, { type: 'hello' }>) => void;
  /** Called once, with why the connection ended when it was this side that ended it. */
  readonly onEnd: (reason: string | undefined) => void;
}

/** One connection of a process in a pod that says it is the sidecar. */
export class SidecarSession {
  readonly #socket: Socket;
  readonly #events: SessionEvents;
  readonly #frames = new StreamFrameReader(MOST_BYTES.ofSidecar);
  readonly #greeting = new FirstBytes(GREETING, () => protocolError('it is no sidecar'));
  #hasHello = false;
  #generation = 0;
  #reason: string | undefined;

  constructor(socket: Socket, events: SessionEvents) {
    this.#socket = socket;
    this.#events = events;
    socket.write(GREETING);
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      limit[Symbol.dispose]();
      events.onEnd(this.#reason);
    });
    const limit = timeLimit(HELLO_MS);
    limit.signal.addEventListener('abort', () => {
      if (!this.#hasHello) this.end('it has not said that it is netplug-sidecar');
    });
  }

  /** Sends parts that apply together. Returns the number of the generation. */
  send(parts: readonly FedPart[]): number {
    this.#generation += 1;
    const generation = this.#generation;
    this.#write([{ type: 'begin', generation }, ...parts, { type: 'end', generation }]);
    return generation;
  }

  end(reason?: string): void {
    this.#reason ??= reason;
    this.#socket.destroy();
  }

  #receive(chunk: Buffer): void {
    try {
      const bytes = this.#greeting.after(chunk);
      if (bytes === undefined) return;
      for (const frame of this.#frames.push(bytes)) {
        if (!this.#events.count()) throw protocolError('it sends too many messages');
        this.#take(readFromSidecar(frame));
      }
    } catch (cause) {
      this.end(reasonOf(cause));
    }
  }

  #take(message: FromSidecar): void {
    if (message.type !== 'hello') {
      if (!this.#hasHello) throw protocolError('it does not say first who it is');
      this.#events.onMessage(message);
      return;
    }
    if (this.#hasHello) throw protocolError('it says twice who it is');
    if (!message.formats.includes(FORMAT)) throw protocolError(`it does not speak format ${String(FORMAT)}`);
    this.#hasHello = true;
    this.#write([{ type: 'welcome', format: FORMAT, ...this.#events.welcome() }]);
    this.#events.onHello(message.release);
  }

  #write(messages: readonly FromAgent[]): void {
    if (this.#socket.destroyed) return;
    this.#socket.write(Buffer.concat(messages.map((message) => jsonFrame(MESSAGE, message))));
    // One that does not read must not fill the memory of the agent. It reconnects, and is told all there is.
    if (this.#socket.writableLength > MOST_UNSENT_BYTES) this.end('it does not read what it is told');
  }
}
