import { timeLimit } from '../../base/clock.ts';
import { MinimalHttp2Session } from './minimal-http2-session.ts';
import type { OpenUnary, UnaryConnection, UnaryOptions, UnaryRequest, UnaryResponse } from './unary-connection.ts';

/** After this long without data from the server, a connection is tested before the next request. */
const QUIET_MS = 10_000;

export const openMinimalHttp2: OpenUnary = (origin, options) => new MinimalHttp2Connection(origin, options);

/** An HTTP/2 connection for programs that send few requests. Does not keep the process running between them. */
export class MinimalHttp2Connection implements UnaryConnection {
  readonly #origin: string;
  readonly #options: UnaryOptions;
  #session: MinimalHttp2Session | undefined;
  #opening: Promise<MinimalHttp2Session> | undefined;
  #receivedAtMs = 0;

  constructor(origin: string, options: UnaryOptions) {
    this.#origin = origin;
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#session?.isOpen === true;
  }

  async connect(): Promise<MinimalHttp2Session> {
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

  async #connect(): Promise<MinimalHttp2Session> {
    const known = this.#session;
    if (known?.isOpen === true) {
      if (performance.now() - this.#receivedAtMs < QUIET_MS) return known;
      const isAlive = await this.#withinLimit(known, known.ping()).then(
        () => true,
        () => false,
      );
      if (isAlive) return known;
    }
    const session = new MinimalHttp2Session(this.#origin, {
      tls: this.#options.tls,
      onData: () => (this.#receivedAtMs = performance.now()),
    });
    // Known from the beginning, so that it can be closed while it opens.
    this.#session = session;
    await this.#withinLimit(session, session.introduced());
    return session;
  }

  /** Waits for the server, and ends the connection when that takes too long. */
  async #withinLimit(session: MinimalHttp2Session, awaited: Promise<void>): Promise<void> {
    const { connectMs } = this.#options;
    using limit = timeLimit(connectMs);
    const late = (): void => session.destroy(new Error(`no connection within ${String(connectMs)} ms`));
    limit.signal.addEventListener('abort', late, { once: true });
    await awaited;
  }
}
