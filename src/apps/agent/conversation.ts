import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import { failureFacts, renderError } from '../../cni/error-output.ts';
import { type CallAnswer, type CallRequest, encodeAnswer, readRequest } from './wire.ts';

/**
 * Serves one request. `callerClosed` aborts when the caller gives up or the server stops waiting. The answer may still reach a
 * caller that gave up.
 */
export type ServeCall = (request: CallRequest, callerClosed: AbortSignal) => Promise<CallAnswer>;

/** A shared abort reason, which avoids an error with a stack trace for each timer. */
const DONE = new Error('timer cancelled');

export interface Listener {
  readonly serve: ServeCall;
  readonly clock: Clock;
  readonly log: Log;
  readonly hello: Buffer;
  /** The time limit from hello until the whole request has arrived. */
  readonly requestMs: number;
  /** The time limit until the caller has read the answer. */
  readonly answerMs: number;
  /** Called when serving begins (1) and when it ends (-1). */
  readonly count: (change: 1 | -1) => void;
}

/** Handles one connection from accept to close: hello, request, answer. Never throws, whatever the caller sends. */
export class Conversation {
  /** Resolves when the connection is closed and its request is no longer being served. */
  readonly ended: Promise<void>;
  readonly #socket: Socket;
  readonly #listener: Listener;
  readonly #request = readRequest();
  readonly #callerClosed = new AbortController();
  #isRolledBack = false;
  #stage: 'waiting' | 'reading' | 'serving' | 'answering' = 'waiting';
  #served: Promise<void> = Promise.resolve();
  #timer = new AbortController();

  constructor(socket: Socket, listener: Listener) {
    this.#socket = socket;
    this.#listener = listener;
    socket.on('data', (bytes) => {
      this.#take(bytes);
    });
    // A caller that gives up closes its sending side. It may still read the answer.
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

  /** Accepts the call: the caller sends its request after the hello. */
  sayHello(): void {
    this.#stage = 'reading';
    this.#closeAfter(this.#listener.requestMs);
    this.#socket.write(this.#listener.hello);
  }

  /** Closes the connection unless hello was sent. */
  leave(): void {
    if (this.#stage === 'waiting') this.#socket.destroy();
  }

  /** Aborts the request and closes the connection once it is rolled back. The caller gets no answer. */
  rollBack(): void {
    if (this.#stage === 'reading') this.#socket.destroy();
    this.#isRolledBack = true;
    this.#giveUp();
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Aborts a request that is being served, once: the caller may close in two steps, and the agent may shut down as well. */
  #giveUp(): void {
    if (this.#stage === 'serving' && !this.#callerClosed.signal.aborted) this.#callerClosed.abort(callerGone());
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
      answer = encodeAnswer(await serve(request, this.#callerClosed.signal));
    } catch (cause) {
      answer = this.#failed(cause);
    }
    count(-1);
    if (this.#isRolledBack || this.#socket.destroyed) this.#socket.destroy();
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
    // The rejection means that the timer was cancelled.
    void this.#listener.clock.sleep(ms, this.#timer.signal).then(close, () => undefined);
  }
}

function callerGone(): NetplugError {
  return new NetplugError('cni/deadline', 'Interrupted: the caller closed the connection', {
    hint: 'Find out from the log of the runtime why it gave up',
  });
}
