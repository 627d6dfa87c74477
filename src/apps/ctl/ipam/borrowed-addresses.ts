import { heldAddresses, type IpBlock } from '../../../model/ip-block.ts';
import { formatAddress } from '../../../net/address.ts';
import { formatCidr } from '../../../net/cidr.ts';
import { renderTable } from '../table.ts';
import { nameHolder } from './describe-holder.ts';

/** An address held on another node than the owner of its block. */
export interface BorrowedAddress {
  readonly address: string;
  readonly block: string;
  /** Undefined when the block has no owner. */
  readonly owner: string | undefined;
  readonly node: string;
  readonly holder: string;
}

export function borrowedAddresses(blocks: readonly IpBlock[]): readonly BorrowedAddress[] {
  return blocks.flatMap((block) =>
    heldAddresses(block, ({ node }) => node !== block.node).map(({ address, allocation }) => ({
      address: formatAddress(address),
      block: formatCidr(block.cidr),
      owner: block.node,
      node: allocation.node,
      holder: nameHolder(allocation),
    })),
  );
}

export function renderBorrowed(borrowed: readonly BorrowedAddress[]): string {
  if (borrowed.length === 0) return 'no address is borrowed\n';
  const rows = borrowed.map(({ address, block, owner, node, holder }) => [
    address,
    block,
    owner ?? '(no node)',
    node,
    holder,
  ]);
  return renderTable(['ADDRESS', 'BLOCK', 'OWNER', 'NODE', 'HOLDER'], rows);
}
