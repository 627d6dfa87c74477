import { isDeepStrictEqual } from 'node:util';
import type { IpBlock } from '../model/ip-block.ts';
import type { NodeName } from '../model/names.ts';
import type { Address } from '../net/address.ts';
import { addressAt, type Cidr } from '../net/cidr.ts';

/** The nodes that hold addresses of the block without owning it, and which: their ordinals, lowest first. */
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

/** The same as addresses of the block. */
export function addressesOf(
  cidr: Cidr,
  borrowed: ReadonlyMap<NodeName, readonly number[]>,
): ReadonlyMap<NodeName, readonly Address[]> {
  return new Map([...borrowed].map(([node, ordinals]) => [node, ordinals.map((ordinal) => addressAt(cidr, ordinal))]));
}

const NOBODY: ReturnType<typeof borrowersOf> = new Map();

/** What an index of borrowers must change when `before` becomes `after`; undefined stands for no block. */
export interface BorrowerChange {
  /** Borrowers that are new or hold other ordinals than before, and all of them when the block has another owner now. */
  readonly noted: ReadonlyMap<NodeName, readonly number[]>;
  readonly forgotten: readonly NodeName[];
}

export function borrowerChange(before: IpBlock | undefined, after: IpBlock | undefined): BorrowerChange {
  const old = before === undefined ? NOBODY : borrowersOf(before);
  const now = after === undefined ? NOBODY : borrowersOf(after);
  const isMoved = before?.node !== after?.node;
  return {
    noted: new Map([...now].filter(([node, ordinals]) => isMoved || !isDeepStrictEqual(old.get(node), ordinals))),
    forgotten: [...old.keys()].filter((node) => !now.has(node)),
  };
}
