import type { Family } from '../../../../net/address.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';

/** Time for which an address of the node may be missing before it is dropped, because a link may be down for a moment. */
export const HOLD_MS = 30_000;

/** Keeps each address of the node for a while after it was last detected. */
export class RetainedAddresses {
  #addresses: ReadonlyMap<Family, OwnAddress> = new Map();
  readonly #missingSinceMs = new Map<Family, number>();

  get addresses(): ReadonlyMap<Family, OwnAddress> {
    return this.#addresses;
  }

  /** Merges the detected addresses with those that are kept, without setting them. `nowMs` is of the monotonic clock. */
  with(found: ReadonlyMap<Family, OwnAddress>, nowMs: number): ReadonlyMap<Family, OwnAddress> {
    const addresses = new Map(found);
    for (const family of found.keys()) this.#missingSinceMs.delete(family);
    for (const [family, before] of this.#addresses) {
      if (found.has(family)) continue;
      const sinceMs = this.#missingSinceMs.get(family) ?? nowMs;
      this.#missingSinceMs.set(family, sinceMs);
      if (nowMs - sinceMs < HOLD_MS) addresses.set(family, before);
    }
    return addresses;
  }

  set(addresses: ReadonlyMap<Family, OwnAddress>): void {
    this.#addresses = addresses;
  }
}
