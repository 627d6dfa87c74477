/** The first bytes that a peer must send, in whatever pieces they come. */
export class FirstBytes {
  readonly #expected: Buffer;
  readonly #refusal: () => Error;
  /** Undefined once they have come. */
  #early: Buffer | undefined = Buffer.alloc(0);

  /** `refusal` makes the error for a peer that sends others. */
  constructor(expected: Buffer, refusal: () => Error) {
    this.#expected = expected;
    this.#refusal = refusal;
  }

  /** Returns what follows them; undefined while they are not complete. @throws the refusal */
  after(chunk: Buffer): Buffer | undefined {
    if (this.#early === undefined) return chunk;
    const bytes = Buffer.concat([this.#early, chunk]);
    const length = Math.min(bytes.length, this.#expected.length);
    if (!bytes.subarray(0, length).equals(this.#expected.subarray(0, length))) throw this.#refusal();
    this.#early = length < this.#expected.length ? bytes : undefined;
    return this.#early === undefined ? bytes.subarray(length) : undefined;
  }
}
