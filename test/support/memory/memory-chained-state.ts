import {
  type ChainedContainer,
  type ChainedState,
  type PortRule,
  portMarksOf,
} from '../../../src/dataplane/chained-state.ts';
import type { Family } from '../../../src/net/address.ts';

/** State of chained plugins in memory, with what the plugins and other programs do to it. */
export class MemoryChainedState implements ChainedState {
  #rules: PortRule[] = [];
  readonly #shapers = new Set<string>();

  /** What an ADD of portmap does with iptables. Does nothing for rules that are there. */
  mapPorts(container: ChainedContainer, families: readonly Family[]): void {
    const mark = portMarksOf(container).chain;
    for (const family of families)
      if (!this.#rules.some((rule) => rule.family === family && rule.mark === mark))
        this.#rules.push({ family, mark, isReached: true });
  }

  /** What a DEL of portmap does. */
  unmapPorts(container: ChainedContainer): void {
    const marks = Object.values(portMarksOf(container));
    this.#rules = this.#rules.filter(({ mark }) => !marks.includes(mark));
  }

  /** What `nft flush ruleset` does. */
  flush(): void {
    this.#rules = [];
  }

  addShaper(name: string): void {
    this.#shapers.add(name);
  }

  async listPortRules(): Promise<readonly PortRule[]> {
    return Promise.resolve([...this.#rules]);
  }

  async removePortRules(container: ChainedContainer): Promise<void> {
    this.unmapPorts(container);
    return Promise.resolve();
  }

  async findShapers(names: readonly string[]): Promise<readonly string[]> {
    return Promise.resolve(names.filter((name) => this.#shapers.has(name)));
  }

  async removeShaper(name: string): Promise<void> {
    this.#shapers.delete(name);
    return Promise.resolve();
  }
}
