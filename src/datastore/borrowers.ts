import type { IpBlock } from '../model/ip-block.ts';
import type { NodeName } from '../model/names.ts';

/** The nodes that hold an address of the block without owning it. */
export function borrowersOf(block: IpBlock): ReadonlySet<NodeName> {
  const holders = new Set([...block.slots.values()].map(({ node }) => node));
  if (block.node !== undefined) holders.delete(block.node);
  return holders;
}

/** What an index of borrowers must change when `before` becomes `after`; undefined stands for no block. */
export interface BorrowerChange {
  /** Borrowers that are new, or whose block has another owner now. */
  readonly noted: readonly NodeName[];
  readonly forgotten: readonly NodeName[];
}

export function borrowerChange(before: IpBlock | undefined, after: IpBlock | undefined): BorrowerChange {
  const old = before === undefined ? new Set<NodeName>() : borrowersOf(before);
  const now = after === undefined ? new Set<NodeName>() : borrowersOf(after);
  const isMoved = before?.node !== after?.node;
  return {
    noted: [...now].filter((node) => isMoved || !old.has(node)),
    forgotten: [...old].filter((node) => !now.has(node)),
  };
}
