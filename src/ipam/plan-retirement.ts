import { slicesOf } from '../base/slices.ts';
import type { Change, Stored } from '../datastore/allocation-store.ts';
import type { IpBlock } from '../model/ip-block.ts';
import { freeOperations, reclaimOperations, type SlotOperation } from '../model/slot-operation.ts';
import type { NodeName } from '../model/names.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { planRelease } from './plan-release.ts';

/** Everything that a datastore records for a node. */
export interface Holdings {
  readonly node: NodeName;
  readonly owned: readonly Stored<IpBlock>[];
  readonly borrowed: readonly Stored<IpBlock>[];
  readonly endpoints: readonly Stored<WorkloadEndpoint>[];
}

/** Counts of what was removed for a node. */
export interface Retired {
  readonly addresses: number;
  readonly endpoints: number;
  /** Deleted blocks. */
  readonly returnedBlocks: number;
  /** Blocks that lost their owner, because other nodes hold addresses of them. */
  readonly orphanedBlocks: number;
}

/** One commit, and the counts of what it removes. */
export interface RetireStep {
  readonly changes: readonly Change[];
  readonly retired: Retired;
}

export const NOTHING_RETIRED: Retired = { addresses: 0, endpoints: 0, returnedBlocks: 0, orphanedBlocks: 0 };

/** Keeps a transaction below etcd's limit of 128 operations. */
const ENDPOINTS_PER_STEP = 50;

/**
 * Plans the removal of a node from the address manager: endpoints first, because an address may be assigned to another
 * attachment once its block says that it is free. One block per commit, so that a conflict delays no other block.
 * Addresses of blocks that stay cool down from `releasedAt` on, in seconds since 1970.
 */
export function planRetirement(
  { node, owned, borrowed, endpoints }: Holdings,
  releasedAt?: number,
): readonly RetireStep[] {
  const steps: RetireStep[] = [];
  for (const some of slicesOf(endpoints, ENDPOINTS_PER_STEP)) {
    const changes = some.map((before): Change => ({ kind: 'delete-endpoint', before }));
    steps.push({ changes, retired: { ...NOTHING_RETIRED, endpoints: some.length } });
  }
  for (const before of owned) steps.push(retireOwned(before, node, releasedAt));
  for (const before of borrowed) {
    const { changes, freed } = planRelease([before], (allocation) => allocation.node === node, releasedAt);
    const returnedBlocks = changes.filter(({ kind }) => kind === 'delete-block').length;
    const retired = { ...NOTHING_RETIRED, addresses: freed.length, returnedBlocks };
    if (changes.length > 0) steps.push({ changes, retired });
  }
  return steps;
}

export function addRetired(a: Retired, b: Retired): Retired {
  return {
    addresses: a.addresses + b.addresses,
    endpoints: a.endpoints + b.endpoints,
    returnedBlocks: a.returnedBlocks + b.returnedBlocks,
    orphanedBlocks: a.orphanedBlocks + b.orphanedBlocks,
  };
}

/** Reclaims pre-allocated addresses and drops requests too: the agent that could answer them is gone. */
function retireOwned(before: Stored<IpBlock>, node: NodeName, releasedAt: number | undefined): RetireStep {
  const { cidr: block, slots, preallocated, requested } = before.value;
  const freed = freeOperations(before.value, (allocation) => allocation.node === node, releasedAt);
  const retired = { ...NOTHING_RETIRED, addresses: freed.length };
  if (freed.length === slots.size) {
    return { changes: [{ kind: 'delete-block', before }], retired: { ...retired, returnedBlocks: 1 } };
  }
  const outdated = [...requested].filter((ordinal) => !preallocated.has(ordinal));
  const operations: SlotOperation[] = [
    ...freed,
    ...reclaimOperations(before.value, () => true),
    ...outdated.map((ordinal) => ({ kind: 'drop-request', block, ordinal }) as const),
    { kind: 'change-owner', block, from: node, to: undefined },
  ];
  return { changes: [{ kind: 'update-block', before, operations }], retired: { ...retired, orphanedBlocks: 1 } };
}
