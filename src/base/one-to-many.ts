/** Several values by key. A key with one value, as most keys of a large index have, needs no set of its own. */
export class OneToMany<K, V extends object | string | number> {
  readonly #values = new Map<K, V | Set<V>>();

  add(key: K, value: V): void {
    const known = this.#values.get(key);
    if (known === undefined) this.#values.set(key, value);
    else if (known instanceof Set) known.add(value);
    else if (known !== value) this.#values.set(key, new Set([known, value]));
  }

  delete(key: K, value: V): void {
    const known = this.#values.get(key);
    if (known === value) this.#values.delete(key);
    if (!(known instanceof Set)) return;
    known.delete(value);
    const [only] = known;
    if (known.size === 1 && only !== undefined) this.#values.set(key, only);
  }

  keys(): Iterable<K> {
    return this.#values.keys();
  }

  /** Returns the values of the key, in the order in which they came. */
  get(key: K): readonly V[] {
    const known = this.#values.get(key);
    if (known === undefined) return [];
    return known instanceof Set ? [...known] : [known];
  }
}
