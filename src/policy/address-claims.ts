import { OneToMany } from '../base/one-to-many.ts';
import { type Address, addressKey } from '../net/address.ts';

/**
 * Evidence that a pod has its addresses: its node has recorded them and the kubelet reports them, its node has recorded them,
 * the kubelet reports them, or reported them before the pod was to end.
 */
export type Evidence = keyof typeof STRENGTHS;

const STRENGTHS = { 'recorded and reported': 3, recorded: 2, reported: 1, 'reported before its end': 0 } as const;

/**
 * Standing of an address among the claims of a pod: it is the pod's, or it may be the pod's or another's, or it is another's. A
 * contested address opens nothing, and what is denied to the pod stays denied to it.
 */
export type AddressStanding = 'own' | 'contested' | 'lost';

interface Claim<T> {
  /** RFC 3339, or empty, which is older than any time. */
  readonly createdAt: string;
  readonly evidence: Evidence;
  readonly addresses: readonly T[];
}

interface Claimant extends Claim<string> {
  readonly key: string;
}

/**
 * Decides which pod has an address that several pods claim: the one with the strongest evidence. Of several that kubelets report,
 * the youngest, and of pods of one age the one whose key comes last. While kubelets do not say which of two has it, neither has.
 * A pod whose address was given to another must not lend that one its identity, nor take the identity of the other.
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

  standingOf(key: string, address: Address): AddressStanding {
    const claimants = this.#byAddress.get(addressKey(address));
    const [only] = claimants;
    if (claimants.length === 1 && only?.key === key) return 'own';
    const own = claimants.find((claimant) => claimant.key === key);
    if (own === undefined) return 'lost';
    const most = Math.max(...claimants.map(strengthOf));
    const strongest = claimants.filter((claimant) => strengthOf(claimant) === most);
    const isDecided = strongest.length === 1 || most !== STRENGTHS.recorded;
    if (isDecided && strongest.toSorted(byAge)[0]?.key === key) return 'own';
    return own.evidence === 'reported before its end' ? 'lost' : 'contested';
  }
}

function strengthOf({ evidence }: Claimant): number {
  return STRENGTHS[evidence];
}

/** The youngest first. */
function byAge(a: Claimant, b: Claimant): number {
  const [ageA = 0, ageB = 0] = [Date.parse(a.createdAt), Date.parse(b.createdAt)].map((time) =>
    Number.isNaN(time) ? 0 : time,
  );
  if (ageA !== ageB) return ageB - ageA;
  return a.key > b.key ? -1 : 1;
}
