import { getSystemErrorName } from 'node:util';
import { NetplugError, invariant } from '../../base/errors.ts';
import type { Addon } from './addon.ts';
import { type Message, NLM_F_ACK, type Reply, decodeReplies, encodeMessage } from './netlink.ts';

const ENODEV = 19;
const LIST_ATTEMPTS = 5;

/** A message and what it does: `what` completes "Cannot …". */
export interface Request {
  readonly what: string;
  readonly message: Message;
}

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
    const [reply] = this.askAll([message]);
    return reply;
  }

  /** Like `ask` for each message in turn, in one exchange; a refused message does not stop the next ones. */
  askAll(messages: readonly [Message, ...Message[]]): readonly [Reply, ...Reply[]] {
    const encoded = this.#encode(messages);
    return this.#decode(encoded, this.#addon.exchange(this.#fd, encoded.bytes));
  }

  /** Has the message carried out. @throws kernel/failed: `what` completes "Cannot …". */
  request(what: string, message: Message): void {
    this.requestAll([{ what, message }]);
  }

  /**
   * Has all requests carried out in one exchange, and behind them `asked`, of which the replies are returned.
   * @throws kernel/failed about the first request that the kernel refused
   */
  requestAll([first, ...rest]: readonly [Request, ...Request[]], asked: readonly Message[] = []): readonly Reply[] {
    const replies = this.askAll([first.message, ...rest.map(({ message }) => message), ...asked]);
    for (const [index, { what }] of [first, ...rest].entries()) {
      const reply = replies[index];
      if (reply !== undefined && reply.errno !== 0) throw refusal(what, reply);
    }
    return replies.slice(1 + rest.length);
  }

  /** Every entry of a table; asks again when it changed while it was read. */
  list(what: string, message: Message): readonly Buffer[] {
    for (let attempt = 1; ; attempt += 1) {
      const bodies = listed(what, this.ask(message), attempt);
      if (bodies !== undefined) return bodies;
    }
  }

  /** The same, off the main thread: for tables of thousands of entries. */
  async listOnWorker(what: string, message: Message): Promise<readonly Buffer[]> {
    for (let attempt = 1; ; attempt += 1) {
      const [reply] = await this.askOnWorker([message]);
      const bodies = listed(what, reply, attempt);
      if (bodies !== undefined) return bodies;
    }
  }

  /** Has the message carried out off the main thread. @throws kernel/failed: `what` completes "Cannot …". */
  async requestOnWorker(what: string, message: Message): Promise<void> {
    const [reply] = await this.askOnWorker([message]);
    if (reply.errno !== 0) throw refusal(what, reply);
  }

  /** Like `ask` for each message in turn, in one go and off the main thread: for what waits in the kernel. */
  async askOnWorker(messages: readonly [Message, ...Message[]]): Promise<readonly [Reply, ...Reply[]]> {
    const encoded = this.#encode(messages);
    return this.#decode(encoded, await this.#addon.exchangeOnWorker(this.#fd, encoded.bytes));
  }

  [Symbol.dispose](): void {
    this.#addon.close(this.#fd);
  }

  #encode(messages: readonly [Message, ...Message[]]): { bytes: Buffer; first: number; count: number } {
    const first = this.#sequence + 1;
    this.#sequence += messages.length;
    // The kernel always tells of a refusal, and works in order: only the last message needs an acknowledgement.
    const last = messages.length - 1;
    const bytes = Buffer.concat(
      messages.map(({ type, flags, body }, index) =>
        encodeMessage({ type, flags: index < last ? flags & ~NLM_F_ACK : flags, body }, first + index),
      ),
    );
    return { bytes, first, count: messages.length };
  }

  #decode(
    { first, count }: { readonly first: number; readonly count: number },
    answer: Buffer | number,
  ): readonly [Reply, ...Reply[]] {
    if (typeof answer === 'number') throw kernelFailure('talk to the kernel over netlink', -answer);
    const [reply, ...rest] = decodeReplies(answer, first, count);
    invariant(reply !== undefined, 'a request has no reply');
    return [reply, ...rest];
  }
}

/** The entries of a table, or undefined when they are to be asked for again. */
function listed(what: string, reply: Reply, attempt: number): readonly Buffer[] | undefined {
  // The device that was asked about is gone, and everything on it.
  if (reply.errno === ENODEV) return [];
  if (reply.errno !== 0) throw refusal(what, reply);
  return reply.isInterrupted && attempt < LIST_ATTEMPTS ? undefined : reply.bodies;
}

/** The refusal of one request as an error; `what` completes "Cannot …". */
export function refusal(what: string, reply: Pick<Reply, 'errno' | 'explanation'>): NetplugError {
  return kernelFailure(what, reply.errno, reply.explanation);
}

export function kernelFailure(what: string, errno: number, explanation?: string): NetplugError {
  const name = getSystemErrorName(-errno);
  return new NetplugError('kernel/failed', `Cannot ${what}: ${verdictOf({ errno, explanation })}`, {
    facts: { errno: name },
    ...(name === 'EPERM' ? { hint: 'Run as root, with the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN' } : {}),
  });
}

/** What the kernel said, for people. */
export function verdictOf({ errno, explanation }: Pick<Reply, 'errno' | 'explanation'>): string {
  const more = explanation === undefined || explanation === '' ? '' : ` (${explanation})`;
  return `the kernel says ${getSystemErrorName(-errno)}${more}`;
}
