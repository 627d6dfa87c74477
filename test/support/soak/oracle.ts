/** How much of what happened is remembered for the report of a failure. */
const MEMORY = 40_000;

/** The answers that runtimes received, and every contradiction in them. */
export class Oracle {
  readonly problems: string[] = [];
  readonly counts = new Map<string, number>();
  readonly #holders = new Map<string, string>();
  readonly #lines: string[] = [];
  #lastMs = Date.now();

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  /** How long nothing has happened. */
  get silentMs(): number {
    return Date.now() - this.#lastMs;
  }

  note(text: string): void {
    this.#lastMs = Date.now();
    this.#lines.push(`${new Date().toISOString()} ${text}`);
    if (this.#lines.length > MEMORY) this.#lines.splice(0, MEMORY / 4);
  }

  /** Something is wrong; `about` are words that lines about it contain. */
  blame(problem: string, about: readonly string[] = []): void {
    this.note(`PROBLEM ${problem}`);
    const lines = this.#lines
      .slice(-4000)
      .filter((line) => line.includes(' ! ') || about.some((word) => line.includes(word)))
      .slice(-30);
    this.problems.push([problem, ...lines].join('\n  '));
  }

  /** Records that a runtime received these addresses for the container. */
  received(container: string, addresses: readonly string[]): void {
    for (const address of addresses) {
      const holder = this.#holders.get(address);
      if (holder !== undefined && holder !== container)
        this.blame(`${address} was given to ${holder} and to ${container}`, [holder, container, address]);
      this.#holders.set(address, container);
    }
  }

  /** The runtime is about to remove the container, or to have it collected. */
  forget(container: string): void {
    for (const [address, holder] of this.#holders) if (holder === container) this.#holders.delete(address);
  }

  /** The last that happened. */
  last(count: number): string {
    return this.#lines.slice(-count).join('\n');
  }
}
