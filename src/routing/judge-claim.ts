import type { NodeName } from '../model/names.ts';
import type { Node } from '../model/node.ts';
import { type Address, sameAddress, tryParseAddress } from '../net/address.ts';

/** Time for which a node must have published an address alone before it makes sure that no other one publishes it. */
export const CLAIM_SETTLES_MS = 10_000;

/** What is known about an address that a node is to publish. */
export interface ClaimFacts {
  /** Other nodes that publish the address, without those whose claim is outdated. */
  readonly others: readonly NodeName[];
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
 * Decides whether a node may publish an address of its own. The first that publishes an address keeps it. Of two that publish it at
 * the same time, each with a view from before, both withdraw it.
 */
export function judgeClaim({ others, isSettled }: ClaimFacts): ClaimVerdict {
  if (others.length === 0) return 'free';
  return isSettled ? 'kept' : 'withheld';
}

/**
 * Reports whether another node publishes an address that it has no more, because its agent does not run: its Node is gone, or its
 * Node has other InternalIPs and the Node of this one has the address.
 */
export function isOutdated(
  address: Address,
  nodes: { readonly own: Node | undefined; readonly other: Node | undefined },
): boolean {
  if (nodes.other === undefined) return true;
  const [own, other] = [nodes.own, nodes.other].map((node) =>
    node === undefined ? [] : internalIpsOf(node).filter(({ family }) => family === address.family),
  );
  const has = (all: readonly Address[] = []): boolean => all.some((each) => sameAddress(each, address));
  return has(own) && other !== undefined && other.length > 0 && !has(other);
}

/** Returns the addresses by which the orchestrator knows the node. */
export function internalIpsOf({ spec }: Node): readonly Address[] {
  return (spec.addresses ?? [])
    .filter(({ type }) => type === 'InternalIP')
    .flatMap(({ address }) => tryParseAddress(address) ?? []);
}
