import type { RenderedChain } from './render-rules.ts';

/** Rules of unused chains and elements of their sets, in all: what a pod has beyond that is not worth the memory. */
const MOST_ENTRIES = 100_000;

/**
 * Chains that packets of no interface go to any more. They stay in the table for a while, because the next pod often has the same
 * policies: of a workload that starts again on the node, all its chains and sets are there already.
 */
export class UnusedChains {
  /** Chains, each with its entries. */
  #recent = new Map<RenderedChain, number>();
  #old = new Map<RenderedChain, number>();

  /** Keeps the chain and all to which it leads, unless they are too many. `sizeOf` counts the elements of sets. */
  add(chain: RenderedChain, sizeOf: (contents: RenderedChain['contents']) => number): void {
    this.#old.delete(chain);
    if (this.#recent.has(chain)) return;
    const entries = entriesOf(chain, sizeOf, new Set());
    if (this.#entries + entries <= MOST_ENTRIES) this.#recent.set(chain, entries);
  }

  /** Forgets the chains that were there when it was called last. Reports whether there were any. */
  age(): boolean {
    const hadOld = this.#old.size > 0;
    [this.#old, this.#recent] = [this.#recent, new Map()];
    return hadOld;
  }

  clear(): void {
    this.#recent.clear();
    this.#old.clear();
  }

  list(): readonly RenderedChain[] {
    return [...this.#recent.keys(), ...this.#old.keys()];
  }

  get #entries(): number {
    return [...this.#recent.values(), ...this.#old.values()].reduce((sum, entries) => sum + entries, 0);
  }
}

function entriesOf(
  { rules, contents, next }: RenderedChain,
  sizeOf: (contents: RenderedChain['contents']) => number,
  seen: Set<RenderedChain>,
): number {
  let sum = rules.length + sizeOf(contents);
  for (const chain of next) {
    if (seen.has(chain)) continue;
    seen.add(chain);
    sum += entriesOf(chain, sizeOf, seen);
  }
  return sum;
}
