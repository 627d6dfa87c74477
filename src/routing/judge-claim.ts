import type { Node } from '../model/node.ts';
import { type Address, sameAddress, tryParseAddress } from '../net/address.ts';

/** Time for which a node must have published an address alone before it makes sure that no other one publishes it. */
export const CLAIM_SETTLES_MS = 10_000;

/**
 * What another node's claim to an address weighs against that of this one:
 * - `outdated`: that node publishes an address that it has no more.
 * - `better`: the orchestrator knows that node by the address, and this one by another.
 * - `equal`: nothing is known for either.
 */
export type OtherClaim = 'outdated' | 'equal' | 'better';

/** What is known about an address that a node is to publish. */
export interface ClaimFacts {
  /** The claims of other nodes that publish the address, without those that are outdated. */
  readonly others: readonly Exclude<OtherClaim, 'outdated'>[];
  /** Whether another node that publishes it was certainly later. */
  readonly isSettled: boolean;
}

/**
 * - `free`: the node may publish the address.
 * - `kept`: it has published the address before the others.
 * - `withheld`: others have, or may have, published it before; the node must not publish it, and must withdraw it.
 */
export type ClaimVerdict = 'free' | 'kept' | 'withheld';

/**
 * Decides whether a node may publish an address of its own. The first that publishes an address keeps it, unless another claim is
 * better. Of two that publish it at the same time, each with a view from before, both withdraw it.
 */
export function judgeClaim({ others, isSettled }: ClaimFacts): ClaimVerdict {
  if (others.length === 0) return 'free';
  return isSettled && !others.includes('better') ? 'kept' : 'withheld';
}

/**
 * Weighs the claim of another node. Its own agent, if that runs, sees the same from the other side: where one claim is outdated, the
 * other one is better.
 */
export function weighClaim(
  address: Address,
  { own, other }: { readonly own: Node | undefined; readonly other: Node | undefined },
): OtherClaim {
  if (other === undefined || isKnownBy(address, own, other)) return 'outdated';
  return isKnownBy(address, other, own) ? 'better' : 'equal';
}

/** Reports whether the address is an InternalIP of the first node, while the second one has others of the family only. */
function isKnownBy(address: Address, first: Node | undefined, second: Node | undefined): boolean {
  const ofFamily = (node: Node | undefined): readonly Address[] =>
    node === undefined ? [] : internalIpsOf(node).filter(({ family }) => family === address.family);
  const has = (all: readonly Address[]): boolean => all.some((each) => sameAddress(each, address));
  const others = ofFamily(second);
  return has(ofFamily(first)) && others.length > 0 && !has(others);
}

/** Returns the addresses by which the orchestrator knows the node. */
export function internalIpsOf({ spec }: Node): readonly Address[] {
  return (spec.addresses ?? [])
    .filter(({ type }) => type === 'InternalIP')
    .flatMap(({ address }) => tryParseAddress(address) ?? []);
}
