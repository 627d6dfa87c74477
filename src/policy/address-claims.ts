import { OneToMany } from '../base/one-to-many.ts';
import { type Address, addressKey } from '../net/address.ts';

interface Claim<T> {
  /** RFC 3339, or empty, which is older than any time. */
  readonly createdAt: string;
  /** Neither an ADD of this node nor the kubelet says that the pod has the addresses. */
  readonly isUnconfirmed: boolean;
  readonly addresses: readonly T[];
}

interface Claimant extends Claim<string> {
  readonly key: string;
}

/**
 * Decides which pod has an address that several pods claim: a confirmed claim comes before an unconfirmed one, then the
 * youngest pod, and of pods of one age the one whose key comes last. A pod whose address was given to another must not lend
 * that one its identity, nor take the identity of the other.
 */
export class AddressClaims {
  readonly #claimants = new Map<string, Claimant>();
  readonly #byAddress = new OneToMany<string, Claimant>();

  /** Replaces the claims of the key, and returns the keys of other claimants whose addresses this may give or take. */
  replace(key: string, claim: Claim<Address>): string[] {
    const before = this.#claimants.get(key);
    const after: Claimant = { key, ...claim, addresses: claim.addresses.map(addressKey) };
    const rivals = new Set<string>();
    for (const address of [...(before?.addresses ?? []), ...after.addresses]) {
      for (const rival of this.#byAddress.get(address)) if (rival.key !== key) rivals.add(rival.key);
    }
    if (before !== undefined) for (const address of before.addresses) this.#byAddress.delete(address, before);
    if (after.addresses.length === 0) this.#claimants.delete(key);
    else this.#claimants.set(key, after);
    for (const address of after.addresses) this.#byAddress.add(address, after);
    return [...rivals];
  }

  hasAddress(key: string, address: Address): boolean {
    let winner: Claimant | undefined;
    for (const claimant of this.#byAddress.get(addressKey(address))) {
      if (winner === undefined || comesBefore(claimant, winner)) winner = claimant;
    }
    return winner?.key === key;
  }
}

function comesBefore(a: Claimant, b: Claimant): boolean {
  if (a.isUnconfirmed !== b.isUnconfirmed) return b.isUnconfirmed;
  const [ageA, ageB] = [Date.parse(a.createdAt), Date.parse(b.createdAt)].map((time) =>
    Number.isNaN(time) ? 0 : time,
  );
  if (ageA !== ageB) return (ageA ?? 0) > (ageB ?? 0);
  return a.key > b.key;
}
