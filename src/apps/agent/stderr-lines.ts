/** What one call says on stderr, for the caller to print; what goes beyond the limit is left out. */
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
