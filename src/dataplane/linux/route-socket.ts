import { getSystemErrorName } from 'node:util';
import { type Facts, NetplugError, invariant } from '../../base/errors.ts';
import type { Family } from '../../net/address.ts';
import type { Addon } from './addon.ts';
import { type Message, NLM_F_ACK, type Reply, decodeReplies, encodeMessage } from './netlink.ts';

const ENODEV = 19;
const LIST_ATTEMPTS = 5;

/** A message and its description: `what` completes "Cannot …". */
export interface Request {
  readonly what: string;
  readonly message: Message;
}

/** A routing netlink socket. It stays in the namespace in which it was opened, also when the thread changes its own. */
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

  /** Sends the message and returns the reply, which may be a refusal. */
  ask(message: Message): Reply {
    const [reply] = this.askAll([message]);
    return reply;
  }

  /** Sends all messages in one exchange, in order; a refused message does not stop the next ones. */
  askAll(messages: readonly [Message, ...Message[]]): readonly [Reply, ...Reply[]] {
    const encoded = this.#encode(messages);
    return this.#decode(encoded, this.#addon.exchange(this.#fd, encoded.bytes));
  }

  /** Sends the message. @throws kernel/failed when the kernel refuses it: `what` completes "Cannot …" */
  request(what: string, message: Message): void {
    this.requestAll([{ what, message }]);
  }

  /**
   * Sends all requests and then `asked` in one exchange. Returns the replies to `asked`, which may be refusals.
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

  /** Returns every entry of a table; asks again when the table changed while it was listed. */
  list(what: string, message: Message): readonly Buffer[] {
    for (let attempt = 1; ; attempt += 1) {
      const bodies = listed(what, this.ask(message), attempt);
      if (bodies !== undefined) return bodies;
    }
  }

  /** Like `list`, off the main thread, for tables with thousands of entries. */
  async listOnWorker(what: string, message: Message): Promise<readonly Buffer[]> {
    for (let attempt = 1; ; attempt += 1) {
      const [reply] = await this.askOnWorker([message]);
      const bodies = listed(what, reply, attempt);
      if (bodies !== undefined) return bodies;
    }
  }

  /** Like `listOnWorker`, for one family after the other. */
  async listFamiliesOnWorker(what: string, messageFor: (family: Family) => Message): Promise<readonly Buffer[]> {
    const v4 = await this.listOnWorker(what, messageFor(4));
    return [...v4, ...(await this.listOnWorker(what, messageFor(6)))];
  }

  /** Like `request`, off the main thread. @throws kernel/failed: `what` completes "Cannot …" */
  async requestOnWorker(what: string, message: Message): Promise<void> {
    const [reply] = await this.askOnWorker([message]);
    if (reply.errno !== 0) throw refusal(what, reply);
  }

  /** Like `askAll`, off the main thread, for messages that make the kernel wait. */
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
    // The kernel works in order and always reports a refusal, so only the last message needs an acknowledgement.
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
    if (typeof answer === 'number') throw kernelFailure('exchange netlink messages with the kernel', -answer);
    const [reply, ...rest] = decodeReplies(answer, first, count);
    invariant(reply !== undefined, 'a request has no reply');
    return [reply, ...rest];
  }
}

/** Returns the entries of a table, or undefined when it must be listed again. */
function listed(what: string, reply: Reply, attempt: number): readonly Buffer[] | undefined {
  // The device of the table does not exist any more.
  if (reply.errno === ENODEV) return [];
  if (reply.errno !== 0) throw refusal(what, reply);
  return reply.isInterrupted && attempt < LIST_ATTEMPTS ? undefined : reply.bodies;
}

/** Returns the refusal of one request as an error; `what` completes "Cannot …". */
export function refusal(
  what: string,
  { errno, explanation }: Pick<Reply, 'errno' | 'explanation'>,
  more: { readonly facts?: Facts; readonly hint?: string } = {},
): NetplugError {
  return kernelFailure(what, errno, { explanation, ...more });
}

export function kernelFailure(
  what: string,
  errno: number,
  {
    explanation,
    facts = {},
    hint,
  }: { readonly explanation?: string | undefined; readonly facts?: Facts; readonly hint?: string } = {},
): NetplugError {
  const name = getSystemErrorName(-errno);
  const advice = name === 'EPERM' ? 'Run as root, with the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN' : hint;
  return new NetplugError('kernel/failed', `Cannot ${what}: ${verdictOf({ errno, explanation })}`, {
    facts: { errno: name, ...facts },
    ...(advice === undefined ? {} : { hint: advice }),
  });
}

/** Returns the reply of the kernel as text for messages. */
export function verdictOf({ errno, explanation }: Pick<Reply, 'errno' | 'explanation'>): string {
  const more = explanation === undefined || explanation === '' ? '' : ` (${explanation})`;
  return `the kernel says ${getSystemErrorName(-errno)}${more}`;
}
