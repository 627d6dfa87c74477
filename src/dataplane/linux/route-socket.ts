import { getSystemErrorName } from 'node:util';
import { NetplugError } from '../../base/errors.ts';
import type { Addon } from './addon.ts';
import { type Message, type Reply, decodeReply, encodeMessage } from './netlink.ts';

const ENODEV = 19;
const LIST_ATTEMPTS = 5;

/** A routing netlink socket. It speaks to the namespace in which it was opened, wherever the thread is later. */
export class RouteSocket implements Disposable {
  readonly #addon: Addon;
  readonly #fd: number;
  #sequence = 0;

  private constructor(addon: Addon, fd: number) {
    this.#addon = addon;
    this.#fd = fd;
  }

  static open(addon: Addon): RouteSocket {
    const fd = addon.openRouteSocket();
    if (fd < 0) throw kernelFailure('open a netlink socket', -fd);
    return new RouteSocket(addon, fd);
  }

  /** Asks, and leaves the verdict on a refusal to the caller. */
  ask(message: Message): Reply {
    const [reply] = this.#send([message], (bytes) => this.#addon.exchange(this.#fd, bytes));
    return reply;
  }

  /** Has the message carried out. @throws kernel/failed: `what` completes "Cannot …". */
  request(what: string, message: Message): void {
    const reply = this.ask(message);
    if (reply.errno !== 0) throw refusal(what, reply);
  }

  /** Every entry of a table; asks again when it changed while it was read. */
  list(what: string, message: Message): readonly Buffer[] {
    for (let attempt = 1; ; attempt += 1) {
      const reply = this.ask(message);
      if (reply.errno !== 0) {
        // The device that was asked about is gone, and everything on it.
        if (reply.errno === ENODEV) return [];
        throw refusal(what, reply);
      }
      if (!reply.isInterrupted || attempt === LIST_ATTEMPTS) return reply.bodies;
    }
  }

  /** Like `ask` for each message in turn, in one go and off the main thread: for what waits in the kernel. */
  async askOnWorker(messages: readonly [Message, ...Message[]]): Promise<readonly [Reply, ...Reply[]]> {
    const encoded = this.#encode(messages);
    return this.#decode(encoded, await this.#addon.exchangeOnWorker(this.#fd, encoded.bytes));
  }

  [Symbol.dispose](): void {
    this.#addon.close(this.#fd);
  }

  #send(
    messages: readonly [Message, ...Message[]],
    exchange: (bytes: Buffer) => Buffer | number,
  ): readonly [Reply, ...Reply[]] {
    const encoded = this.#encode(messages);
    return this.#decode(encoded, exchange(encoded.bytes));
  }

  #encode(messages: readonly [Message, ...Message[]]): { bytes: Buffer; first: number; count: number } {
    const first = this.#sequence + 1;
    this.#sequence += messages.length;
    const bytes = Buffer.concat(messages.map((message, index) => encodeMessage(message, first + index)));
    return { bytes, first, count: messages.length };
  }

  #decode(
    { first, count }: { readonly first: number; readonly count: number },
    answer: Buffer | number,
  ): readonly [Reply, ...Reply[]] {
    if (typeof answer === 'number') throw kernelFailure('talk to the kernel over netlink', -answer);
    const rest = Array.from({ length: count - 1 }, (_, index) => decodeReply(answer, first + 1 + index));
    return [decodeReply(answer, first), ...rest];
  }
}

/** The refusal of one request as an error; `what` completes "Cannot …". */
export function refusal(what: string, reply: Pick<Reply, 'errno' | 'explanation'>): NetplugError {
  return kernelFailure(what, reply.errno, reply.explanation);
}

export function kernelFailure(what: string, errno: number, explanation?: string): NetplugError {
  const name = getSystemErrorName(-errno);
  const more = explanation === undefined || explanation === '' ? '' : ` (${explanation})`;
  return new NetplugError('kernel/failed', `Cannot ${what}: the kernel says ${name}${more}`, {
    facts: { errno: name },
    ...(name === 'EPERM' ? { hint: 'Run as root, with the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN' } : {}),
  });
}
