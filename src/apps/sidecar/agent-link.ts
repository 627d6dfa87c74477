import type { Socket } from 'node:net';
import { once } from 'node:events';
import {
  type FedPart,
  FORMAT,
  type FromAgent,
  type FromSidecar,
  GREETING,
  MOST_BYTES,
} from '../../policy/feed/messages.ts';
import { never } from '../../base/errors.ts';
import { FirstBytes } from '../../base/first-bytes.ts';
import { jsonFrame, payloadJson, protocolError, StreamFrameReader } from '../../stream/stream-frames.ts';
import type { Identity } from './request-judge.ts';

/** Type of all frames: the payload says what it is. */
const MESSAGE = 1;

export interface AgentLinkPorts {
  readonly release: string;
  readonly believe: (identity: Identity) => void;
  /** `whole` for the first parts of a connection, which are all there is. */
  readonly apply: (parts: readonly FedPart[], which: 'more' | 'whole') => void;
}

/** One connection to the agent of the node, from its first byte to its last. */
export class AgentLink {
  readonly #socket: Socket;
  readonly #ports: AgentLinkPorts;
  readonly #frames = new StreamFrameReader(MOST_BYTES.ofAgent);
  readonly #greeting = new FirstBytes(GREETING, () => protocolError('no agent of netplug listens in this pod'));
  /** Parts since `begin`; undefined outside of a generation. */
  #parts: FedPart[] | undefined;
  #isFirst = true;
  #isWelcome = false;

  constructor(socket: Socket, ports: AgentLinkPorts) {
    this.#socket = socket;
    this.#ports = ports;
    socket.write(GREETING);
    this.send({ type: 'hello', release: ports.release, formats: [FORMAT] });
  }

  /** Resolves when the connection has ended. @throws stream/protocol, or why it was cut off */
  async run(): Promise<void> {
    const failed = Promise.withResolvers<never>();
    this.#socket.on('data', (chunk: Buffer) => {
      try {
        this.#receive(chunk);
      } catch (cause) {
        failed.reject(cause instanceof Error ? cause : new Error(String(cause)));
        this.#socket.destroy();
      }
    });
    await Promise.race([once(this.#socket, 'close'), failed.promise]);
  }

  send(message: FromSidecar): void {
    if (!this.#socket.destroyed) this.#socket.write(jsonFrame(MESSAGE, message));
  }

  #receive(chunk: Buffer): void {
    const bytes = this.#greeting.after(chunk);
    if (bytes === undefined) return;
    // The agent of the node is believed: it decides what the kernel opens.
    for (const frame of this.#frames.push(bytes)) this.#take(payloadJson(frame) as FromAgent);
  }

  #take(message: FromAgent): void {
    switch (message.type) {
      case 'welcome':
        if (message.format !== FORMAT) throw protocolError(`the agent speaks format ${String(message.format)}`);
        this.#isWelcome = true;
        return this.#ports.believe({ trustDomains: message.trustDomains, mode: message.identity });
      case 'begin':
        if (!this.#isWelcome) throw protocolError('policies come before the welcome');
        this.#parts = [];
        return undefined;
      case 'end':
        if (this.#parts === undefined) throw protocolError('a generation ends that has not begun');
        this.#ports.apply(this.#parts, this.#isFirst ? 'whole' : 'more');
        this.#parts = undefined;
        this.#isFirst = false;
        return this.send({ type: 'applied', generation: message.generation });
      case 'endpoint':
      case 'policy':
      case 'profile':
      case 'set':
      case 'gone':
        if (this.#parts === undefined) throw protocolError(`"${message.type}" outside of a generation`);
        this.#parts.push(message);
        return undefined;
      default:
        return never(message);
    }
  }
}
