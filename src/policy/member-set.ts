import { type Address, bitsOf, formatAddress } from '../net/address.ts';
import { type Cidr, formatCidr, hostCidr } from '../net/cidr.ts';
import { treesOf } from './cidr-tree.ts';

/**
 * CIDRs that several members contribute, as a disjoint list: one within another is hidden while the other is there. A change
 * costs as many steps as a CIDR has bits, and one for each CIDR that it hides or shows again.
 */
export class MemberSet {
  readonly #trees = treesOf();
  #size = 0;
  #listed: readonly Cidr[] | undefined;
  /** Changes of the list since they were last taken. */
  #added = new Map<string, Cidr>();
  #removed = new Map<string, Cidr>();

  add(cidr: Cidr): void {
    const tree = this.#trees[cidr.base.family];
    if (tree.add(cidr) > 1) return;
    this.#size += 1;
    if (tree.isWithinAnother(cidr)) return;
    for (const inner of tree.directlyWithin(cidr)) this.#note(inner, this.#removed, this.#added);
    this.#note(cidr, this.#added, this.#removed);
  }

  /** Takes back one `add` of the same CIDR. */
  remove(cidr: Cidr): void {
    const tree = this.#trees[cidr.base.family];
    if (tree.remove(cidr) !== 0) return;
    this.#size -= 1;
    if (tree.isWithinAnother(cidr)) return;
    this.#note(cidr, this.#removed, this.#added);
    for (const inner of tree.directlyWithin(cidr)) this.#note(inner, this.#added, this.#removed);
  }

  /** Number of CIDRs, those within others included. */
  get size(): number {
    return this.#size;
  }

  contains(address: Address): boolean {
    return this.#trees[address.family].covers(hostCidr(address));
  }

  /** Returns the disjoint CIDRs, in order. */
  list(): readonly Cidr[] {
    this.#listed ??= [...this.#trees[4].largest(), ...this.#trees[6].largest()];
    return this.#listed;
  }

  /** Returns how the list changed since the last call, by `elementText`. */
  takeChange(): { readonly added: ReadonlyMap<string, Cidr>; readonly removed: ReadonlyMap<string, Cidr> } {
    const change = { added: this.#added, removed: this.#removed };
    this.#added = new Map();
    this.#removed = new Map();
    return change;
  }

  #note(cidr: Cidr, changes: Map<string, Cidr>, opposite: Map<string, Cidr>): void {
    const key = elementText(cidr);
    this.#listed = undefined;
    if (!opposite.delete(key)) changes.set(key, cidr);
  }
}

/** Returns the text of the CIDR as an element of a set: that of a single address has no prefix. */
export function elementText(cidr: Cidr): string {
  return isSingle(cidr) ? formatAddress(cidr.base) : formatCidr(cidr);
}

/** Reports whether the CIDR is one address. */
export function isSingle({ base, prefixBits }: Cidr): boolean {
  return prefixBits === bitsOf(base.family);
}
