import { getSystemErrorName } from 'node:util';
import type { NetplugError } from '../../base/errors.ts';
import { SerialQueue } from '../../base/serial-queue.ts';
import type { Addon } from './addon.ts';
import { encodeInTurn } from './encode-in-turn.ts';
import { type Message, NLM_F_ACK, type Reply, decodeReplies, portOf } from './netlink.ts';
import { kernelFailure, refusal } from './route-socket.ts';
import { batchMark } from './nft-messages.ts';

const LIST_ATTEMPTS = 5;
const ENOENT = 2;
/** Hint for a rule that the kernel refuses. */
const MODULES = 'The kernel needs nf_tables with nft_ct, nft_fib_inet, nft_limit, nft_masq and nft_nat';
/** Refusals for reasons other than the message: rights, memory, signals, another transaction. */
const PASSING: ReadonlySet<unknown> = new Set(['EPERM', 'EINTR', 'EAGAIN', 'ENOMEM', 'EBUSY', 'ENOBUFS']);

/** Reports whether the kernel refused something for another reason than what it is. */
export function isPassing(refused: NetplugError): boolean {
  return PASSING.has(refused.facts['errno']);
}

/** A netfilter socket. It stays in the namespace in which it was opened. */
export class NftSocket implements Disposable {
  readonly #addon: Addon;
  readonly #fd: number;
  /** A reply does not name its request across threads: one exchange at a time. */
  readonly #exchanges = new SerialQueue();
  #sequence = 0;
  #port: number | undefined;

  private constructor(addon: Addon, fd: number) {
    this.#addon = addon;
    this.#fd = fd;
  }

  static open(addon: Addon): NftSocket {
    const fd = addon.openFilterSocket();
    if (fd < 0) throw kernelFailure('open a netfilter socket', -fd);
    return new NftSocket(addon, fd);
  }

  /** The port by which the kernel names this socket to others; undefined before the first reply. */
  get port(): number | undefined {
    return this.#port;
  }

  /**
   * Applies all messages in one transaction, or none. Does nothing without messages.
   * @throws kernel/failed about the first message that the kernel refused; `what` completes "Cannot …". The fact `rule` is
   * what `ruleOf` returns of the message, unless the kernel may take it another time.
   */
  async commit(
    what: string,
    messages: readonly Message[],
    ruleOf: (message: Message) => string | undefined = () => undefined,
  ): Promise<void> {
    if (messages.length === 0) return;
    const last = messages.length - 1;
    const acknowledged = messages.map((message, index) =>
      index === last ? { ...message, flags: message.flags | NLM_F_ACK } : message,
    );
    const replies = await this.#exchange([batchMark('begin'), ...acknowledged, batchMark('end')]);
    const at = replies.findIndex(({ errno }) => errno !== 0);
    const refused = replies[at];
    if (refused === undefined) return;
    // The batch begins with a mark.
    const message = messages[at - 1];
    const rule = message === undefined || PASSING.has(getSystemErrorName(-refused.errno)) ? undefined : ruleOf(message);
    throw refusal(what, refused, rule === undefined ? {} : { facts: { rule }, hint: MODULES });
  }

  /** Lists what the message asks for, again when it changed meanwhile. Returns nothing when its table does not exist. */
  async list(what: string, message: Message): Promise<readonly Buffer[]> {
    for (let attempt = 1; ; attempt += 1) {
      const [reply] = await this.#exchange([message]);
      if (reply === undefined || reply.errno === ENOENT) return [];
      if (reply.errno !== 0) throw refusal(what, reply);
      if (!reply.isInterrupted || attempt === LIST_ATTEMPTS) return reply.bodies;
    }
  }

  /**
   * Sends the messages, each on its own, and returns how many took effect. Those about what does not exist are ignored.
   * @throws kernel/failed about the first message that the kernel refused; `what` completes "Cannot …"
   */
  async requestEach(what: string, messages: readonly Message[]): Promise<number> {
    return (await this.existEach(what, messages)).filter(Boolean).length;
  }

  /**
   * Asks each question on its own. Returns whether what it is about exists.
   * @throws kernel/failed about the first question that the kernel refused; `what` completes "Cannot …"
   */
  async existEach(what: string, questions: readonly Message[]): Promise<readonly boolean[]> {
    if (questions.length === 0) return [];
    const replies = await this.#exchange(questions);
    const refused = replies.find(({ errno }) => errno !== 0 && errno !== ENOENT);
    if (refused !== undefined) throw refusal(what, refused);
    return replies.map(({ errno }) => errno === 0);
  }

  [Symbol.dispose](): void {
    this.#addon.close(this.#fd);
  }

  async #exchange(messages: readonly Message[]): Promise<readonly Reply[]> {
    const first = this.#sequence + 1;
    this.#sequence += messages.length;
    const bytes = await encodeInTurn(messages, first);
    const answer = await this.#exchanges.run(async () => this.#addon.exchangeOnWorker(this.#fd, bytes));
    if (typeof answer === 'number') throw kernelFailure('exchange netfilter messages with the kernel', -answer);
    this.#port ??= portOf(answer);
    return decodeReplies(answer, first, messages.length);
  }
}
