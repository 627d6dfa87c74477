import type { Change, Stored } from '../datastore/allocation-store.ts';
import { emptyBlock, type IpBlock } from '../model/ip-block.ts';
import type { NodeName } from '../model/names.ts';
import { BlockDraft } from '../model/slot-operation.ts';
import { compareCidrs } from '../net/cidr.ts';
import type { Pool } from './choose-pools.ts';

/** A block with the operations planned for it so far. */
export class PlannedBlock extends BlockDraft {
  readonly stored: Stored<IpBlock> | undefined;
  readonly pool: Pool | undefined;
  /** The owner with which a new block is created. */
  readonly owner: NodeName | undefined;

  constructor(
    block: IpBlock,
    from: { readonly stored: Stored<IpBlock> } | { readonly pool: Pool; readonly owner: NodeName | undefined },
  ) {
    super(block);
    this.stored = 'stored' in from ? from.stored : undefined;
    this.pool = 'pool' in from ? from.pool : undefined;
    this.owner = 'owner' in from ? from.owner : undefined;
  }
}

/** Returns the change that writes what was planned for the block; none when nothing was. */
export function changesOf(planned: PlannedBlock): Change[] {
  const { stored, pool, operations } = planned;
  if (stored !== undefined)
    return operations.length === 0 ? [] : [{ kind: 'update-block', before: stored, operations }];
  const block = emptyBlock(planned.block.cidr, planned.owner);
  return pool === undefined ? [] : [{ kind: 'create-block', block, pool: pool.stored, operations }];
}

/** Orders by CIDR. */
export function blocksInOrder(a: PlannedBlock, b: PlannedBlock): number {
  return compareCidrs(a.block.cidr, b.block.cidr);
}
