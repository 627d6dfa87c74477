import { timeLimit } from '../../base/clock.ts';
import { LeanSession } from './lean-session.ts';
import type { OpenUnary, UnaryConnection, UnaryOptions, UnaryRequest, UnaryResponse } from './unary-connection.ts';

/** After this long without data from the server, a connection is tested before the next request. */
const QUIET_MS = 10_000;

export const openLean: OpenUnary = (origin, options) => new LeanConnection(origin, options);

/** An HTTP/2 connection for programs that send few requests. Does not keep the process running between them. */
export class LeanConnection implements UnaryConnection {
  readonly #origin: string;
  readonly #options: UnaryOptions;
  #session: LeanSession | undefined;
  #opening: Promise<LeanSession> | undefined;
  #receivedAtMs = 0;

  constructor(origin: string, options: UnaryOptions) {
    this.#origin = origin;
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#session?.isOpen === true;
  }

  async connect(): Promise<LeanSession> {
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async post(path: string, request: UnaryRequest): Promise<UnaryResponse> {
    return (await this.connect()).post(path, request);
  }

  suspect(): void {
    this.#receivedAtMs = Number.NEGATIVE_INFINITY;
  }

  close(): void {
    this.#session?.destroy();
    this.#session = undefined;
  }

  async #connect(): Promise<LeanSession> {
    const known = this.#session;
    if (known?.isOpen === true) {
      if (performance.now() - this.#receivedAtMs < QUIET_MS) return known;
      const isAlive = await this.#withinLimit(known, known.ping()).then(
        () => true,
        () => false,
      );
      if (isAlive) return known;
    }
    const session = new LeanSession(this.#origin, {
      tls: this.#options.tls,
      onData: () => (this.#receivedAtMs = performance.now()),
    });
    // Known from the beginning, so that it can be closed while it opens.
    this.#session = session;
    await this.#withinLimit(session, session.introduced());
    return session;
  }

  /** Waits for the server, and ends the connection when that takes too long. */
  async #withinLimit(session: LeanSession, awaited: Promise<void>): Promise<void> {
    const { connectMs } = this.#options;
    using limit = timeLimit(connectMs);
    const late = (): void => session.destroy(new Error(`no connection within ${String(connectMs)} ms`));
    limit.signal.addEventListener('abort', late, { once: true });
    await awaited;
  }
}
