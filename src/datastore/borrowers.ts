import { isDeepStrictEqual } from 'node:util';
import type { IpBlock } from '../model/ip-block.ts';
import type { NodeName } from '../model/names.ts';
import type { Address } from '../net/address.ts';
import { addressAt, type Cidr } from '../net/cidr.ts';

/** Returns the ordinals, lowest first, that nodes other than the owner hold, by node. */
export function borrowersOf({ node: owner, slots }: IpBlock): ReadonlyMap<NodeName, readonly number[]> {
  const borrowed = new Map<NodeName, number[]>();
  for (const [ordinal, { node }] of [...slots].sort(([a], [b]) => a - b)) {
    if (node === owner) continue;
    const ordinals = borrowed.get(node);
    if (ordinals === undefined) borrowed.set(node, [ordinal]);
    else ordinals.push(ordinal);
  }
  return borrowed;
}

/** Converts the ordinals of `borrowersOf` to addresses. */
export function addressesOf(
  cidr: Cidr,
  borrowed: ReadonlyMap<NodeName, readonly number[]>,
): ReadonlyMap<NodeName, readonly Address[]> {
  return new Map([...borrowed].map(([node, ordinals]) => [node, ordinals.map((ordinal) => addressAt(cidr, ordinal))]));
}

const NO_BORROWERS: ReturnType<typeof borrowersOf> = new Map();

/** The change of the index of borrowers when a block changes. */
export interface BorrowerChange {
  /** Borrowers that are new or hold different ordinals, or all borrowers when the owner has changed. */
  readonly updated: ReadonlyMap<NodeName, readonly number[]>;
  readonly removed: readonly NodeName[];
}

export function borrowerChange(before: IpBlock | undefined, after: IpBlock | undefined): BorrowerChange {
  const old = before === undefined ? NO_BORROWERS : borrowersOf(before);
  const now = after === undefined ? NO_BORROWERS : borrowersOf(after);
  const isMoved = before?.node !== after?.node;
  return {
    updated: new Map([...now].filter(([node, ordinals]) => isMoved || !isDeepStrictEqual(old.get(node), ordinals))),
    removed: [...old.keys()].filter((node) => !now.has(node)),
  };
}
