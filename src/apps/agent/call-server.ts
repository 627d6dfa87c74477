import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { lstatSync } from 'node:fs';
import { chmod, lstat, mkdir, rename, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { dirname } from 'node:path';
import { type Clock, untilBeat } from '../../base/clock.ts';
import { errnoOf, invariant, isNetplugError, NetplugError } from '../../base/errors.ts';
import { isMissing } from '../../base/missing-file.ts';
import type { Log } from '../../base/log.ts';
import { Undo } from '../../base/undo.ts';
import { Conversation, type Listener, type ServeCall } from './conversation.ts';
import { HELLO } from './wire.ts';

export interface CallServerOptions {
  readonly serve: ServeCall;
  readonly clock: Clock;
  readonly log: Log;
  /** The greeting, by which callers recognise the server; that of an agent unless given. */
  readonly hello?: Buffer;
  /** Called with the number of requests in flight, whenever it changes. */
  readonly onCount?: (inFlight: number) => void;
  /** The limit of open connections, including those whose call is being rolled back. Further ones are closed. */
  readonly maxConnections?: number;
  /** Time that a caller may take to send its request, and to read its answer. */
  readonly requestMs?: number;
  readonly answerMs?: number;
}

const TAKEOVER_MS = 2000;
const TAKEOVER_PERIOD_MS = 5;
const SUPERSEDED_PERIOD_MS = 5000;

interface Place {
  readonly path: string;
  readonly dev: number;
  readonly ino: number;
}

/**
 * Serves requests on a Unix socket. Call `listen`, then `publish`, then `start`: from `publish` on callers connect and
 * wait, from `start` on they are served. A caller that waits for more than a second runs the standalone program.
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
    const { serve, clock, log, hello = HELLO } = options;
    this.#listener = { serve, clock, log, hello, requestMs, answerMs, count };
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      const conversation = new Conversation(socket, this.#listener);
      this.#conversations.add(conversation);
      void conversation.ended.then(() => this.#conversations.delete(conversation));
      if (this.#phase === 'stopped' || this.#conversations.size > maxConnections) conversation.close();
      else if (this.#phase === 'serving') conversation.sayHello();
    });
    // Without free file descriptors a connection is not accepted. Its caller runs the standalone program.
    this.#server.on('error', (cause) => {
      options.log.error('socket failed', { message: cause.message });
    });
  }

  /** Listens at a temporary path beside the final one. Creates the folder. @throws agent/socket-unusable */
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
        throw unusable(path, `other users may write in "${folder}"`);
      this.#draft = draft;
      this.#place = { path, dev: own.dev, ino: own.ino };
    });
    undo.disarm();
  }

  /** Uses a socket that listens at the path already, as an inherited file descriptor. Replaces `listen` and `publish`. */
  async adopt(fd: number, path: string): Promise<void> {
    this.#server.listen({ fd });
    await once(this.#server, 'listening');
    const { dev, ino } = await lstat(path);
    this.#place = { path, dev, ino };
  }

  /** Moves the socket to its final path atomically, replacing that of another agent. @throws agent/socket-unusable */
  async publish(): Promise<void> {
    const { draft, place } = { draft: this.#draft, place: this.#place };
    invariant(draft !== undefined && place !== undefined, 'the server publishes before it listens');
    await onSocket(place.path, async () => rename(draft, place.path));
  }

  /** Begins to serve connections, with those that wait. */
  start(): void {
    this.#phase = 'serving';
    for (const conversation of this.#conversations) conversation.sayHello();
  }

  /** Resolves when another agent has replaced the socket, at the latest after two seconds. */
  async waitForTakeover(): Promise<void> {
    for (let waitedMs = 0; waitedMs < TAKEOVER_MS; waitedMs += TAKEOVER_PERIOD_MS) {
      if (!this.#isInPlace()) return;
      await this.#listener.clock.sleep(TAKEOVER_PERIOD_MS, new AbortController().signal);
    }
  }

  /** Resolves when the socket at the path was removed or replaced. Rejects with the signal's reason. */
  async waitUntilSuperseded(signal: AbortSignal): Promise<void> {
    const { clock } = this.#listener;
    while (this.#isInPlace()) await clock.sleep(untilBeat(SUPERSEDED_PERIOD_MS, clock), signal);
  }

  /**
   * Accepts no more calls and waits up to `limitMs` for those in flight. Then rolls back the rest, whose callers run the
   * standalone program. Returns false when even those have not ended. Idempotent.
   */
  async stop(limitMs: number): Promise<boolean> {
    this.#phase = 'stopped';
    await this.#withdraw();
    // Also removes a socket at the temporary path.
    this.#server.close();
    for (const conversation of this.#conversations) conversation.leave();
    if (await this.#areDone(limitMs)) return true;
    for (const conversation of this.#conversations) conversation.rollBack();
    const areDone = await this.#areDone(this.#listener.answerMs);
    for (const conversation of this.#conversations) conversation.close();
    return areDone;
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

  /** Removes the socket unless it is another agent's. */
  async #withdraw(): Promise<void> {
    if (this.#place !== undefined && this.#isInPlace()) await rm(this.#place.path, { force: true });
  }

  /** Reports whether the socket at the path is this server's. Synchronous, because that is cheaper in a poll. */
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
