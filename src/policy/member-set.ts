import { type Address, bitsOf, type Family } from '../net/address.ts';
import { type Cidr, cidrAround, cidrContains, compareCidrs, hostCidr } from '../net/cidr.ts';

interface Counted {
  readonly cidr: Cidr;
  count: number;
}

/**
 * CIDRs that several members contribute, as a disjoint list: one within another is hidden while the other is there. A change
 * of single addresses costs the same for any size; one of a larger net costs a pass over all.
 */
export class MemberSet {
  readonly #counted = new Map<string, Counted>();
  /** Number of CIDRs of each length, by family. */
  readonly #lengths: Readonly<Record<Family, Map<number, number>>> = { 4: new Map(), 6: new Map() };
  #listed: readonly Cidr[] | undefined;
  /** Changes of the list since they were last taken. */
  #added = new Map<string, Cidr>();
  #removed = new Map<string, Cidr>();

  add(cidr: Cidr): void {
    const key = keyOf(cidr);
    const counted = this.#counted.get(key);
    if (counted !== undefined) {
      counted.count += 1;
      return;
    }
    if (!this.#isWithinAnother(cidr)) {
      for (const inner of this.#directlyWithin(cidr)) this.#note(inner, this.#removed, this.#added);
      this.#note(cidr, this.#added, this.#removed);
    }
    this.#counted.set(key, { cidr, count: 1 });
    this.#countLength(cidr, 1);
  }

  /** Takes back one `add` of the same CIDR. */
  remove(cidr: Cidr): void {
    const key = keyOf(cidr);
    const counted = this.#counted.get(key);
    if (counted === undefined) return;
    counted.count -= 1;
    if (counted.count > 0) return;
    this.#counted.delete(key);
    this.#countLength(cidr, -1);
    if (this.#isWithinAnother(cidr)) return;
    this.#note(cidr, this.#removed, this.#added);
    for (const inner of this.#directlyWithin(cidr)) this.#note(inner, this.#added, this.#removed);
  }

  /** Number of CIDRs, those within others included. */
  get size(): number {
    return this.#counted.size;
  }

  contains(address: Address): boolean {
    return this.#counted.has(keyOf(hostCidr(address))) || this.#isWithinAnother(hostCidr(address));
  }

  /** Returns the disjoint CIDRs, in order. */
  list(): readonly Cidr[] {
    this.#listed ??= [...this.#counted.values()]
      .map(({ cidr }) => cidr)
      .filter((cidr) => !this.#isWithinAnother(cidr))
      .toSorted(compareCidrs);
    return this.#listed;
  }

  /** Returns how the list changed since the last call. */
  takeChange(): { readonly added: readonly Cidr[]; readonly removed: readonly Cidr[] } {
    const change = { added: [...this.#added.values()], removed: [...this.#removed.values()] };
    this.#added = new Map();
    this.#removed = new Map();
    return change;
  }

  #isWithinAnother(cidr: Cidr): boolean {
    const { base, prefixBits } = cidr;
    for (const bits of this.#lengths[base.family].keys()) {
      if (bits < prefixBits && this.#counted.has(keyOf(cidrAround(base, bits)))) return true;
    }
    return false;
  }

  /** Returns what would be on the list without the CIDR, and is within it. */
  #directlyWithin(outer: Cidr): Cidr[] {
    const { base, prefixBits } = outer;
    if (prefixBits === bitsOf(base.family)) return [];
    const within: Cidr[] = [];
    for (const { cidr } of this.#counted.values()) {
      const isInside = cidr.prefixBits > prefixBits && cidrContains(outer, cidr);
      if (isInside && !this.#isWithinAnother(cidr)) within.push(cidr);
    }
    return within;
  }

  #note(cidr: Cidr, changes: Map<string, Cidr>, opposite: Map<string, Cidr>): void {
    const key = keyOf(cidr);
    this.#listed = undefined;
    if (!opposite.delete(key)) changes.set(key, cidr);
  }

  #countLength({ base, prefixBits }: Cidr, difference: 1 | -1): void {
    const lengths = this.#lengths[base.family];
    const count = (lengths.get(prefixBits) ?? 0) + difference;
    if (count === 0) lengths.delete(prefixBits);
    else lengths.set(prefixBits, count);
  }
}

function keyOf({ base, prefixBits }: Cidr): string {
  return `${String(base.value)}/${String(prefixBits)} ${String(base.family)}`;
}
