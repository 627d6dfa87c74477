/** Collects the stderr of one call, up to a limit, for the caller to print. */
export class StderrLines {
  readonly #parts: string[] = [];
  #length = 0;

  readonly write = (text: string): void => {
    this.#length += text.length;
    if (this.#length <= LIMIT) this.#parts.push(text);
  };

  get text(): string {
    return this.#parts.join('');
  }
}

const LIMIT = 1024 * 1024;
