import type { Change, Stored } from '../../../datastore/allocation-store.ts';
import type { CallStore } from '../../../datastore/store.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import { applyOperations } from '../../../model/slot-operation.ts';
import type { NodeName } from '../../../model/names.ts';
import { formatCidr } from '../../../net/cidr.ts';

/** The version of blocks that the agent offers, which are not read from the datastore. */
const OFFERED = 'offered';

export interface RecordingStore {
  readonly store: CallStore;
  /** Recorded changes, in order. */
  readonly changes: readonly Change[];
}

/**
 * Returns a store that reads from `inner` and records commits instead of writing them. A request for a pre-allocated
 * address of another node is answered as the agent of that node would answer it: the address is free afterwards.
 * `offered` are the blocks of the node as its agent offers them.
 */
export function recordingStore(
  inner: CallStore,
  { node: own, offered }: { readonly node: NodeName; readonly offered: readonly IpBlock[] | undefined },
): RecordingStore {
  const changes: Change[] = [];
  const answered = new Map<string, IpBlock>();
  const seen = ({ value, version }: Stored<IpBlock>): Stored<IpBlock> => ({
    value: answered.get(formatCidr(value.cidr)) ?? value,
    version,
  });
  const store: CallStore = {
    readNodeView: async (node, endpoint, signal) => {
      const view = await inner.readNodeView(node, endpoint, signal);
      const isOffered = offered !== undefined && node === own;
      const owned = isOffered ? offered.map((value) => ({ value, version: OFFERED })) : view.owned;
      return { ...view, owned: owned.map(seen), borrowed: view.borrowed.map(seen) };
    },
    getBlocks: async (cidrs, signal) => (await inner.getBlocks(cidrs, signal)).map(seen),
    listClaims: async (within, signal) => inner.listClaims(within, signal),
    listBlocks: async (signal) => inner.listBlocks(signal),
    listEndpoints: async (node, signal) => inner.listEndpoints(node, signal),
    findResource: async (which, signal) => inner.findResource(which, signal),
    listResources: async (kind, signal) => inner.listResources(kind, signal),
    isOlder: (version, than) => inner.isOlder(version, than),
    ping: async (signal) => inner.ping(signal),
    commit: async (asked) => {
      changes.push(...asked);
      for (const change of asked) {
        if (change.kind !== 'update-block' || !onlyRequestsAddresses(change)) continue;
        const answers = change.operations.flatMap((each) =>
          each.kind === 'request' ? { ...each, kind: 'reclaim' as const } : [],
        );
        const after = applyOperations(change.before.value, [...change.operations, ...answers]);
        if (after !== undefined) answered.set(formatCidr(after.cidr), after);
      }
      return Promise.resolve('committed');
    },
    [Symbol.asyncDispose]: async () => Promise.resolve(),
  };
  return { store, changes };
}

/** Reports whether the change only requests pre-allocated addresses from the owner of the block. */
export function onlyRequestsAddresses({ operations }: Extract<Change, { kind: 'update-block' }>): boolean {
  return operations.every(({ kind }) => kind === 'request');
}
