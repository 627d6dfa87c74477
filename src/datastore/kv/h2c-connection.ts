import { timeLimit } from '../../base/clock.ts';
import { H2cSession } from './h2c-session.ts';
import { isUnencrypted } from '../../config/require-tls.ts';
import type { OpenUnary, UnaryConnection, UnaryRequest, UnaryResponse } from './unary-connection.ts';

/** After this long without data from the server, a connection is tested before the next request. */
const QUIET_MS = 10_000;

/** Returns an `H2cConnection` for an unencrypted endpoint. */
export const openH2c: OpenUnary = (origin, limits) =>
  isUnencrypted(origin) ? new H2cConnection(origin, limits) : undefined;

/** An unencrypted HTTP/2 connection for programs that send few requests. Does not keep the process running between them. */
export class H2cConnection implements UnaryConnection {
  readonly #origin: string;
  readonly #connectMs: number;
  #session: H2cSession | undefined;
  #opening: Promise<H2cSession> | undefined;
  #receivedAtMs = 0;

  constructor(origin: string, { connectMs }: { readonly connectMs: number }) {
    this.#origin = origin;
    this.#connectMs = connectMs;
  }

  get isOpen(): boolean {
    return this.#session?.isOpen === true;
  }

  async connect(): Promise<H2cSession> {
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

  async #connect(): Promise<H2cSession> {
    const known = this.#session;
    if (known?.isOpen === true) {
      if (performance.now() - this.#receivedAtMs < QUIET_MS) return known;
      const isAlive = await this.#withinLimit(known, known.ping()).then(
        () => true,
        () => false,
      );
      if (isAlive) return known;
    }
    const session = new H2cSession(this.#origin, () => (this.#receivedAtMs = performance.now()));
    // Known from the beginning, so that it can be closed while it opens.
    this.#session = session;
    await this.#withinLimit(session, session.introduced());
    return session;
  }

  /** Waits for the server, and ends the connection when that takes too long. */
  async #withinLimit(session: H2cSession, awaited: Promise<void>): Promise<void> {
    using limit = timeLimit(this.#connectMs);
    const late = (): void => session.destroy(new Error(`no connection within ${String(this.#connectMs)} ms`));
    limit.signal.addEventListener('abort', late, { once: true });
    await awaited;
  }
}
