/** Received data after which the window of a response grows again. */
const CREDIT_BYTES = 2 ** 20;
const NOTHING = Buffer.alloc(0);
const NO_FIELDS: ReadonlyMap<string, string> = new Map();

/** Headers and trailers of a response, which are empty until they arrive. Names are in lower case. */
export interface ResponseFields {
  /** With `:status`. */
  readonly headers: ReadonlyMap<string, string>;
  /** Empty for a response of headers only. */
  readonly trailers: ReadonlyMap<string, string>;
}

/** The connection of a stream. */
export interface StreamCarrier {
  /** Sends as much of the request as the windows allow. */
  readonly send: () => void;
  /** Lets the server send that many bytes more. */
  readonly grant: (bytes: number) => void;
  /** Called when the response is not read any further. */
  readonly release: () => void;
}

/**
 * A request and its response, which go on at the same time. Yields the pieces of the response; one iteration ends it.
 * Throws what has cut it off.
 */
export class Http2Stream implements ResponseFields, AsyncIterable<Buffer> {
  /** Bytes of the request that the server accepts. */
  window: number;
  readonly #carrier: StreamCarrier;
  readonly #signal: AbortSignal;
  #headers: ReadonlyMap<string, string> | undefined;
  #trailers = NO_FIELDS;
  #chunks: Buffer[] = [];
  /** How the response has ended; undefined while it goes on. */
  #end: { readonly error?: Error } | undefined;
  /** Called with the next event of the response. */
  #waiting: (() => void)[] = [];
  #lastMs = performance.now();
  /** Bytes that the windows do not allow yet. */
  #unsent: Buffer = NOTHING;
  /** Whether nothing follows these bytes. */
  #isLast = false;
  /** Whether the end of the request was taken. */
  #isSent = false;
  /** Bytes read by which the window of the response has not grown yet. */
  #credit = 0;

  constructor(carrier: StreamCarrier, { window, signal }: { readonly window: number; readonly signal: AbortSignal }) {
    this.#carrier = carrier;
    this.window = window;
    this.#signal = signal;
    signal.addEventListener('abort', this.#abort, { once: true });
  }

  get headers(): ReadonlyMap<string, string> {
    return this.#headers ?? NO_FIELDS;
  }

  get trailers(): ReadonlyMap<string, string> {
    return this.#trailers;
  }

  get hasHeaders(): boolean {
    return this.#headers !== undefined;
  }

  /** Whether the response has ended, in whichever way. */
  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** Milliseconds since the server has sent something of the response, or since the request. */
  get quietMs(): number {
    return performance.now() - this.#lastMs;
  }

  /** Whether request and response are complete. */
  get isWhole(): boolean {
    return this.#isSent && this.#end !== undefined && this.#end.error === undefined;
  }

  write(bytes: Buffer): void {
    if (this.isOver) return;
    this.#unsent = this.#unsent.length === 0 ? bytes : Buffer.concat([this.#unsent, bytes]);
    this.#carrier.send();
  }

  /** Ends the request, with these bytes. */
  end(bytes: Buffer = NOTHING): void {
    this.#isLast = true;
    this.write(bytes);
  }

  /** Notes that the response has ended, or what has cut it off. */
  finish(error?: Error): void {
    this.#end ??= error === undefined ? {} : { error };
    this.#wake();
  }

  /** Cancels the request. The response throws the error. */
  destroy(error: Error): void {
    this.finish(error);
    this.#release();
  }

  /** Resolves when the response has ended, in whichever way. */
  async ended(): Promise<void> {
    while (!this.isOver) await this.#event();
  }

  /** Returns the next bytes of the request, and whether they are the last; undefined when none may be sent. */
  take(mostBytes: number): { readonly payload: Buffer; readonly isLast: boolean } | undefined {
    const length = Math.min(this.#unsent.length, mostBytes, this.window);
    const isIdle = this.#unsent.length === 0 ? !this.#isLast : length <= 0;
    if (this.#isSent || isIdle) return undefined;
    const payload = this.#unsent.subarray(0, length);
    this.#unsent = this.#unsent.subarray(length);
    this.window -= length;
    this.#isSent = this.#isLast && this.#unsent.length === 0;
    return { payload, isLast: this.#isSent };
  }

  /** Receives a piece of the response, of which the padding has been removed. */
  receive(content: Buffer, paddingBytes: number): void {
    this.#credit += paddingBytes;
    if (content.length > 0) this.#chunks.push(content);
    this.#wake();
  }

  /** Receives headers, or trailers after them. */
  receiveFields(fields: ReadonlyMap<string, string>): void {
    if (this.#headers === undefined) this.#headers = fields;
    else this.#trailers = fields;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    try {
      for (;;) {
        if (this.#end?.error !== undefined) throw this.#end.error;
        const chunks = this.#chunks.splice(0);
        if (chunks.length === 0 && this.#end !== undefined) return;
        for (const chunk of chunks) {
          yield chunk;
          this.#grant(chunk.length);
        }
        if (this.#chunks.length === 0 && this.#end === undefined) await this.#event();
      }
    } finally {
      this.#release();
    }
  }

  readonly #abort = (): void => {
    const reason: unknown = this.#signal.reason;
    this.destroy(reason instanceof Error ? reason : new Error(String(reason)));
  };

  #release(): void {
    this.#signal.removeEventListener('abort', this.#abort);
    this.#carrier.release();
  }

  async #event(): Promise<void> {
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #wake(): void {
    this.#lastMs = performance.now();
    for (const resume of this.#waiting.splice(0)) resume();
  }

  /** The server may send more of a response whose reader keeps up. */
  #grant(bytes: number): void {
    this.#credit += bytes;
    if (this.#credit < CREDIT_BYTES || this.isOver) return;
    this.#carrier.grant(this.#credit);
    this.#credit = 0;
  }
}
