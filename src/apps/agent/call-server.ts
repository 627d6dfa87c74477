import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { lstatSync } from 'node:fs';
import { chmod, lstat, mkdir, rename, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { dirname } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { errnoOf, invariant, isNetplugError, NetplugError } from '../../base/errors.ts';
import { isMissing } from '../../base/missing-file.ts';
import type { Log } from '../../base/log.ts';
import { Undo } from '../../base/undo.ts';
import { Conversation, type Listener, type ServeCall } from './conversation.ts';

export interface CallServerOptions {
  readonly serve: ServeCall;
  readonly clock: Clock;
  readonly log: Log;
  /** Told how many requests are being served, whenever that changes. */
  readonly onCount?: (inFlight: number) => void;
  /** Connections at once, with those whose call is still being taken back; what comes beyond is closed. */
  readonly maxConnections?: number;
  /** Time for a caller to send its request, and to take its answer. */
  readonly requestMs?: number;
  readonly answerMs?: number;
}

const REPLACED_MS = 2000;
const REPLACED_PERIOD_MS = 5;
const DISPLACED_PERIOD_MS = 1000;

interface Place {
  readonly path: string;
  readonly dev: number;
  readonly ino: number;
}

/**
 * Serves requests on a Unix socket. `listen`, `publish` and `start` follow one another: from `publish` on callers come
 * here and wait, from `start` on they are served. A caller that waits for longer than a second serves itself.
 */
export class CallServer {
  readonly #server: Server;
  readonly #listener: Listener;
  readonly #conversations = new Set<Conversation>();
  #phase: 'waiting' | 'serving' | 'stopped' = 'waiting';
  #draft: string | undefined;
  #place: Place | undefined;

  constructor(options: CallServerOptions) {
    const { maxConnections = 512, requestMs = 10_000, answerMs = 10_000, onCount } = options;
    let inFlight = 0;
    const count = (change: 1 | -1): void => {
      inFlight += change;
      onCount?.(inFlight);
    };
    this.#listener = { serve: options.serve, clock: options.clock, log: options.log, requestMs, answerMs, count };
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      const conversation = new Conversation(socket, this.#listener);
      this.#conversations.add(conversation);
      void conversation.ended.then(() => this.#conversations.delete(conversation));
      if (this.#phase === 'stopped' || this.#conversations.size > maxConnections) conversation.close();
      else if (this.#phase === 'serving') conversation.sayHello();
    });
    // A connection that cannot be accepted (no file descriptor left) is lost, and its caller serves itself.
    this.#server.on('error', (cause) => {
      options.log.error('socket failed', { message: cause.message });
    });
  }

  /** Listens beside the path, where nobody looks yet; makes the folder. @throws agent/socket-unusable */
  async listen(path: string): Promise<void> {
    const folder = dirname(path);
    const draft = `${path}.${randomBytes(6).toString('hex')}`;
    await using undo = new Undo();
    await onSocket(path, async () => {
      await mkdir(folder, { recursive: true, mode: 0o755 });
      this.#server.listen({ path: draft });
      await once(this.#server, 'listening');
      undo.defer(() => void this.#server.close());
      await chmod(draft, 0o600);
      const [around, own] = [await lstat(folder), await lstat(draft)];
      if (!around.isDirectory() || around.uid !== own.uid || (around.mode & 0o022) !== 0)
        throw unusable(path, `others may write in "${folder}"`);
      this.#draft = draft;
      this.#place = { path, dev: own.dev, ino: own.ino };
    });
    undo.keep();
  }

  /** Puts the socket at its path in one step, also over the one of another agent. @throws agent/socket-unusable */
  async publish(): Promise<void> {
    const { draft, place } = { draft: this.#draft, place: this.#place };
    invariant(draft !== undefined && place !== undefined, 'the server publishes before it listens');
    await onSocket(place.path, async () => rename(draft, place.path));
  }

  /** Says hello to those who wait and to whoever comes. */
  start(): void {
    this.#phase = 'serving';
    for (const conversation of this.#conversations) conversation.sayHello();
  }

  /** Resolves when another agent has put its socket at the path, or has had the time for it. */
  async replaced(): Promise<void> {
    for (let waitedMs = 0; waitedMs < REPLACED_MS; waitedMs += REPLACED_PERIOD_MS) {
      if (!this.#isInPlace()) return;
      await this.#listener.clock.sleep(REPLACED_PERIOD_MS, new AbortController().signal);
    }
  }

  /** Resolves when nobody new can reach this server any more: another is at its path, or none. Rejects with the signal's reason. */
  async displaced(signal: AbortSignal): Promise<void> {
    while (this.#isInPlace()) await this.#listener.clock.sleep(DISPLACED_PERIOD_MS, signal);
  }

  /**
   * Takes no more calls and waits for those it said hello to. What is not done after `limitMs` is taken back, and its callers serve
   * themselves once that is done, or after the time for taking an answer at the latest. Repeating it is fine.
   */
  async stop(limitMs: number): Promise<void> {
    this.#phase = 'stopped';
    await this.#withdraw();
    // Also removes the socket where nobody looks yet.
    this.#server.close();
    for (const conversation of this.#conversations) conversation.leave();
    if (await this.#areDone(limitMs)) return;
    for (const conversation of this.#conversations) conversation.takeBack();
    await this.#areDone(this.#listener.answerMs);
    for (const conversation of this.#conversations) conversation.close();
  }

  async #areDone(withinMs: number): Promise<boolean> {
    const timer = new AbortController();
    const all = Promise.all([...this.#conversations].map(async ({ ended }) => ended)).then(() => {
      timer.abort();
      return true;
    });
    return this.#listener.clock.sleep(withinMs, timer.signal).then(
      () => false,
      async () => all,
    );
  }

  /** Leaves alone what another agent has put at the path. */
  async #withdraw(): Promise<void> {
    if (this.#place !== undefined && this.#isInPlace()) await rm(this.#place.path, { force: true });
  }

  /** Asked every second for as long as the agent lives: without the way through other threads it costs next to nothing. */
  #isInPlace(): boolean {
    if (this.#place === undefined) return false;
    const { path, dev, ino } = this.#place;
    try {
      const there = lstatSync(path);
      return there.dev === dev && there.ino === ino;
    } catch (cause) {
      if (!isMissing(cause)) throw cause;
      return false;
    }
  }
}

async function onSocket<T>(path: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (cause) {
    if (isNetplugError(cause)) throw cause;
    throw unusable(path, errnoOf(cause) ?? String(cause), cause);
  }
}

function unusable(path: string, reason: string, cause?: unknown): NetplugError {
  return new NetplugError('agent/socket-unusable', `Cannot listen on "${path}": ${reason}`, {
    hint: 'Give the agent a folder that belongs to it alone, or another path in NETPLUG_SOCKET',
    facts: { path },
    cause,
  });
}
