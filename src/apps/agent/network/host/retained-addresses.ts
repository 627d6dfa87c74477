import { type Address, type Family, sameAddress } from '../../../../net/address.ts';
import { isHostAddress } from '../../../../routing/detect-address.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import type { OwnAddresses } from './own-addresses.ts';

/** Time for which an address of the node may be missing before it is dropped, because a link may be down for a moment. */
export const HOLD_MS = 30_000;

/** Keeps each address of the node for a while after it was last detected. */
export class RetainedAddresses {
  #addresses: ReadonlyMap<Family, OwnAddress> = new Map();
  readonly #replaced = new Map<Family, Address>();
  readonly #missingSinceMs = new Map<Family, number>();
  #hasBegun = false;

  get addresses(): ReadonlyMap<Family, OwnAddress> {
    return this.#addresses;
  }

  /** Addresses that others stand in for since the node had them, or its record at the start, of which each is preferred when it is back. */
  get replaced(): ReadonlyMap<Family, Address> {
    return this.#replaced;
  }

  /**
   * Merges the detected addresses with those that are kept, without setting them. One without a network counts as none at first,
   * since the one before may be missing for a moment: at the start of the agent, the one that its record has. `nowMs` is of the
   * monotonic clock.
   */
  with(
    { addresses: found, published }: Pick<OwnAddresses, 'addresses' | 'published'>,
    nowMs: number,
  ): ReadonlyMap<Family, OwnAddress> {
    // The record loses an address that is missing.
    if (!this.#hasBegun) for (const [family, address] of published) this.#replaced.set(family, address);
    this.#hasBegun = true;
    const addresses = new Map(found);
    for (const [family, after] of found) {
      const before = this.#addresses.get(family);
      const had = before?.address ?? this.#replaced.get(family);
      if (had === undefined || !isHostAddress(after) || sameAddress(had, after.address))
        this.#missingSinceMs.delete(family);
      else if (!this.#isHeld(family, nowMs)) continue;
      else if (before === undefined) addresses.delete(family);
      else addresses.set(family, before);
    }
    for (const [family, before] of this.#addresses) {
      if (!found.has(family) && this.#isHeld(family, nowMs)) addresses.set(family, before);
    }
    return addresses;
  }

  set(addresses: ReadonlyMap<Family, OwnAddress>): void {
    for (const [family, { address }] of this.#addresses) {
      const after = addresses.get(family)?.address;
      if (after !== undefined && sameAddress(address, after)) continue;
      if (!this.#replaced.has(family)) this.#replaced.set(family, address);
    }
    for (const [family, { address }] of addresses) {
      const before = this.#replaced.get(family);
      if (before !== undefined && sameAddress(address, before)) this.#replaced.delete(family);
    }
    this.#addresses = addresses;
  }

  #isHeld(family: Family, nowMs: number): boolean {
    const sinceMs = this.#missingSinceMs.get(family) ?? nowMs;
    this.#missingSinceMs.set(family, sinceMs);
    return nowMs - sinceMs < HOLD_MS;
  }
}
