import type { Address, Family } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';

/** A place of the tree: a CIDR that was added, or where two others part. */
interface Place {
  /** An address in it, as numbers of 32 bits, which cost a tenth of large ones. */
  readonly words: readonly number[];
  readonly bits: number;
  /** How often the CIDR was added; 0 where others part. */
  count: number;
  cidr: Cidr | undefined;
  zero: Place | undefined;
  one: Place | undefined;
}

/**
 * Counted CIDRs of one address family, as a tree of their common bits. Each operation costs as many steps as a CIDR has bits,
 * and one for each CIDR that it returns.
 */
export class CidrTree {
  readonly #root: Place = placeAt([0, 0, 0, 0], 0);
  /** The last address and its words: callers ask several things about one CIDR. */
  #last: { readonly base: Address; readonly words: readonly number[] } | undefined;

  /** Returns how often the CIDR has been added, with this time. */
  add(cidr: Cidr): number {
    const place = this.#placeFor(cidr);
    place.cidr ??= cidr;
    place.count += 1;
    return place.count;
  }

  /** Takes back one `add` of the CIDR. Returns how many are left; undefined when there was none. */
  remove(cidr: Cidr): number | undefined {
    const path = this.#pathTo(cidr);
    const place = path.at(-1);
    if (place?.bits !== cidr.prefixBits || place.count === 0) return undefined;
    place.count -= 1;
    if (place.count > 0) return place.count;
    place.cidr = undefined;
    this.#shrink(path);
    return 0;
  }

  has(cidr: Cidr): boolean {
    const place = this.#pathTo(cidr).at(-1);
    return place?.bits === cidr.prefixBits && place.count > 0;
  }

  /** Reports whether the CIDR, or a larger one that it is a part of, was added. */
  covers(cidr: Cidr): boolean {
    return this.has(cidr) || this.isWithinAnother(cidr);
  }

  /** Reports whether the CIDR is a part of a larger one that was added. */
  isWithinAnother({ base, prefixBits }: Cidr): boolean {
    const words = this.#wordsOf(base);
    let place: Place | undefined = this.#root;
    while (place !== undefined && place.bits < prefixBits && commonBits(place.words, words) >= place.bits) {
      if (place.count > 0) return true;
      place = bitAt(words, place.bits) ? place.one : place.zero;
    }
    return false;
  }

  /** Returns the CIDR if it was added, and otherwise what `directlyWithin` returns. */
  within(cidr: Cidr): readonly Cidr[] {
    return this.has(cidr) ? [cidr] : this.directlyWithin(cidr);
  }

  /** Returns the largest of the CIDRs that are parts of this one, in order. */
  directlyWithin({ base, prefixBits }: Cidr): Cidr[] {
    const words = this.#wordsOf(base);
    let place: Place | undefined = this.#root;
    while (place !== undefined && place.bits < prefixBits) {
      if (commonBits(place.words, words) < place.bits) return [];
      place = bitAt(words, place.bits) ? place.one : place.zero;
    }
    if (place === undefined || commonBits(place.words, words) < prefixBits) return [];
    return place.bits === prefixBits ? [...largest(place.zero), ...largest(place.one)] : largest(place);
  }

  /** Returns all that are no part of another one, in order. */
  largest(): Cidr[] {
    return largest(this.#root);
  }

  #wordsOf(base: Address): readonly number[] {
    if (this.#last?.base !== base) this.#last = { base, words: wordsOf(base) };
    return this.#last.words;
  }

  /** Returns the place of the CIDR, which it makes. */
  #placeFor({ base, prefixBits }: Cidr): Place {
    const words = this.#wordsOf(base);
    let place = this.#root;
    while (place.bits < prefixBits) {
      const next: Place | undefined = bitAt(words, place.bits) ? place.one : place.zero;
      const common = next === undefined ? 0 : commonBits(next.words, words);
      if (next !== undefined && next.bits <= prefixBits && common >= next.bits) {
        place = next;
        continue;
      }
      const made = placeAt(words, prefixBits);
      put(place, next === undefined ? made : joined(next, made, common));
      return made;
    }
    return place;
  }

  /** Returns the places that hold the CIDR, from the root on; the last one is its own when there is one. */
  #pathTo({ base, prefixBits }: Cidr): Place[] {
    const words = this.#wordsOf(base);
    const path: Place[] = [];
    let place: Place | undefined = this.#root;
    while (place !== undefined && place.bits <= prefixBits && commonBits(place.words, words) >= place.bits) {
      path.push(place);
      if (place.bits === prefixBits) break;
      place = bitAt(words, place.bits) ? place.one : place.zero;
    }
    return path;
  }

  /** Removes the last place of the path, and the one before it, unless they are needed. */
  #shrink(path: Place[]): void {
    const place = path.pop();
    const outer = path.at(-1);
    if (place === undefined || outer === undefined || place.count > 0) return;
    const { zero, one } = place;
    if (zero !== undefined && one !== undefined) return;
    if (bitAt(place.words, outer.bits)) outer.one = zero ?? one;
    else outer.zero = zero ?? one;
    if (zero === undefined && one === undefined) this.#shrink(path);
  }
}

/** Returns a tree for each family, with the CIDRs. */
export function treesOf(cidrs: readonly Cidr[] = []): Readonly<Record<Family, CidrTree>> {
  const trees = { 4: new CidrTree(), 6: new CidrTree() };
  for (const cidr of cidrs) trees[cidr.base.family].add(cidr);
  return trees;
}

function placeAt(words: readonly number[], bits: number): Place {
  return { words, bits, count: 0, cidr: undefined, zero: undefined, one: undefined };
}

/** Puts the place directly into the outer one. */
function put(outer: Place, inner: Place): void {
  if (bitAt(inner.words, outer.bits)) outer.one = inner;
  else outer.zero = inner;
}

/** Returns the place that holds both, which have the first `common` bits in common; the second may be it. */
function joined(old: Place, made: Place, common: number): Place {
  const joint = common >= made.bits ? made : placeAt(made.words, common);
  put(joint, old);
  if (joint !== made) put(joint, made);
  return joint;
}

function wordsOf({ value, family }: Address): readonly number[] {
  if (family === 4) return [Number(value)];
  const [high, low] = [value >> 64n, value & 0xffff_ffff_ffff_ffffn];
  return [Number(high >> 32n), Number(high & 0xffff_ffffn), Number(low >> 32n), Number(low & 0xffff_ffffn)];
}

function bitAt(words: readonly number[], at: number): boolean {
  return (((words[at >> 5] ?? 0) >>> (31 - (at & 31))) & 1) === 1;
}

function commonBits(a: readonly number[], b: readonly number[]): number {
  for (let at = 0; at < b.length; at += 1) {
    const differing = (a[at] ?? 0) ^ (b[at] ?? 0);
    if (differing !== 0) return at * 32 + Math.clz32(differing);
  }
  return b.length * 32;
}

function largest(place: Place | undefined): Cidr[] {
  if (place === undefined) return [];
  if (place.cidr !== undefined) return [place.cidr];
  const found: Cidr[] = [];
  // A loop, because lists of a large set do not fit into the arguments of a call.
  const due = [place];
  for (let next = due.pop(); next !== undefined; next = due.pop()) {
    const { zero, one, cidr } = next;
    if (cidr !== undefined) {
      found.push(cidr);
      continue;
    }
    if (one !== undefined) due.push(one);
    if (zero !== undefined) due.push(zero);
  }
  return found;
}
