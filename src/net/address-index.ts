import type { Address } from './address.ts';
import { type Cidr, cidrSize } from './cidr.ts';

/** Finds the entries whose address is in a CIDR or a range, without a pass over all of them. */
export class AddressIndex<T> {
  readonly #sorted: readonly { readonly address: Address; readonly entry: T }[];

  constructor(entries: readonly { readonly address: Address; readonly entry: T }[]) {
    this.#sorted = entries.toSorted((a, b) => compareAddresses(a.address, b.address));
  }

  within(cidr: Cidr): Generator<T> {
    const { family, value } = cidr.base;
    return this.between(cidr.base, { family, value: value + cidrSize(cidr) - 1n });
  }

  *between(first: Address, last: Address): Generator<T> {
    for (let at = this.#firstFrom(first); at < this.#sorted.length; at += 1) {
      const found = this.#sorted[at];
      if (found === undefined || compareAddresses(found.address, last) > 0) return;
      yield found.entry;
    }
  }

  /** Returns the position of the first address that is not before this one. */
  #firstFrom(address: Address): number {
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const found = this.#sorted[middle];
      if (found !== undefined && compareAddresses(found.address, address) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function compareAddresses(a: Address, b: Address): number {
  if (a.family !== b.family) return a.family - b.family;
  return a.value < b.value ? -1 : Number(a.value > b.value);
}
