import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { failureFacts, renderError } from '../../cni/error-output.ts';
import { type CallAnswer, type CallRequest, encodeAnswer, HELLO, readRequest } from './wire.ts';

/**
 * Serves one request. `gone` is aborted when the caller gives up or the server stops waiting; what is answered after
 * that may still reach a caller who gave up.
 */
export type ServeCall = (request: CallRequest, gone: AbortSignal) => Promise<CallAnswer>;

/** Without a reason, one with a stack would be made each time. */
const DONE = new Error('not waited for any more');

export interface Listener {
  readonly serve: ServeCall;
  readonly clock: Clock;
  readonly log: Log;
  /** From hello until the whole request is there. */
  readonly requestMs: number;
  /** Until the caller has taken the answer. */
  readonly answerMs: number;
  /** Told when serving begins (1) and when it ends (-1). */
  readonly count: (change: 1 | -1) => void;
}

/** One connection, from accept to close: hello, the request, the answer. Nothing a caller does makes it throw. */
export class Conversation {
  /** Settles when the connection is closed and what served it has ended. */
  readonly ended: Promise<void>;
  readonly #socket: Socket;
  readonly #listener: Listener;
  readonly #request = readRequest();
  readonly #gone = new AbortController();
  #isTakenBack = false;
  #stage: 'waiting' | 'reading' | 'serving' | 'answering' = 'waiting';
  #served: Promise<void> = Promise.resolve();
  #timer = new AbortController();

  constructor(socket: Socket, listener: Listener) {
    this.#socket = socket;
    this.#listener = listener;
    socket.on('data', (bytes) => {
      this.#take(bytes);
    });
    // A caller that gives up ends what it sends; it may still hear what came of it.
    socket.on('end', () => {
      if (this.#stage === 'waiting' || this.#stage === 'reading') this.#socket.destroy();
      this.#giveUp();
    });
    // Every error is followed by the close.
    socket.on('error', () => undefined);
    const closed = new Promise<void>((resolve) => {
      socket.on('close', () => {
        this.#timer.abort(DONE);
        this.#giveUp();
        resolve();
      });
    });
    this.ended = closed.then(async () => this.#served);
  }

  /** Takes the call over: only now the caller sends its request. */
  sayHello(): void {
    this.#stage = 'reading';
    this.#closeAfter(this.#listener.requestMs);
    this.#socket.write(HELLO);
  }

  /** Ends it unless hello was said. */
  leave(): void {
    if (this.#stage === 'waiting') this.#socket.destroy();
  }

  /** Ends it as soon as what was begun is taken back; the caller gets no answer. */
  takeBack(): void {
    if (this.#stage === 'reading') this.#socket.destroy();
    this.#isTakenBack = true;
    this.#giveUp();
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Of the end and the close of a connection, and of an agent that ends, the first that comes counts. */
  #giveUp(): void {
    if (!this.#gone.signal.aborted) this.#gone.abort(callerGone());
  }

  #take(bytes: Buffer): void {
    if (this.#stage !== 'reading') {
      this.#socket.destroy();
      return;
    }
    try {
      const request = this.#request.push(bytes);
      if (request !== undefined) this.#served = this.#serve(request);
    } catch (cause) {
      this.#answer(this.#failed(cause));
    }
  }

  async #serve(request: CallRequest): Promise<void> {
    const { serve, count } = this.#listener;
    this.#stage = 'serving';
    this.#timer.abort(DONE);
    count(1);
    let answer: Buffer;
    try {
      answer = encodeAnswer(await serve(request, this.#gone.signal));
    } catch (cause) {
      answer = this.#failed(cause);
    }
    count(-1);
    if (this.#isTakenBack || this.#socket.destroyed) this.#socket.destroy();
    else this.#answer(answer);
  }

  #answer(answer: Buffer): void {
    this.#stage = 'answering';
    this.#closeAfter(this.#listener.answerMs);
    this.#socket.end(answer, () => this.#socket.destroy());
  }

  #failed(cause: unknown): Buffer {
    this.#listener.log.error('request failed', failureFacts(cause));
    const document = JSON.stringify(renderError(cause, undefined), undefined, 2);
    return encodeAnswer({ status: 1, stdout: `${document}\n`, stderr: '' });
  }

  #closeAfter(ms: number): void {
    this.#timer.abort(DONE);
    this.#timer = new AbortController();
    const close = (): void => {
      this.#socket.destroy();
    };
    // The one who stops the timer needs nothing from it.
    void this.#listener.clock.sleep(ms, this.#timer.signal).then(close, () => undefined);
  }
}

function callerGone(): NetplugError {
  return new NetplugError('cni/deadline', 'Cannot finish the call: the caller went away', {
    hint: 'Look at the log of the runtime for why it gave up',
  });
}
