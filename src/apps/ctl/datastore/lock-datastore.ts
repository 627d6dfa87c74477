import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { NetplugError } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import { changeClusterInformation, newGuid, withNote } from '../../../datastore/keep-cluster-information.ts';
import { type ClusterInformation, isLocked } from '../../../model/cluster-information.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { counted } from '../../../base/counted.ts';
import { typeOf } from './contents.ts';
import { readMark, withMark } from './import-mark.ts';

/** After this time, writes that were planned before the lock have ended. */
const SETTLE_MS = 2000;
/** Time to wait until agents have returned their pre-allocated addresses; running agents need milliseconds. */
const AGENTS_TIMEOUT_MS = 10_000;
const PERIOD_MS = 500;

/** Locks the datastore: no address is assigned or released until `unlock`. Idempotent. */
export async function lockDatastore(context: Context): Promise<Status> {
  const { ports, io, signal } = context;
  return withStore(context, 'write-locked', async (store, datastore) => {
    const note = { version: VERSION, types: [typeOf(datastore)] };
    const before = await changeClusterInformation(
      { ...ports, store },
      (cluster) => {
        const known = cluster ?? withNote(undefined, note, newGuid(ports));
        return known === undefined || isLocked(known) ? undefined : withReadiness(known, false);
      },
      signal,
    );
    io.stdout(isLocked(before) ? 'the datastore was already locked\n' : 'the datastore is locked\n');
    if (!isLocked(before)) await ports.clock.sleep(SETTLE_MS, signal);
    const left = await waitForAgents(context, store);
    if (left.size > 0) io.stderr(`warning: ${describePreallocated(left)}\n`);
    return 0;
  });
}

/** Unlocks the datastore, after which an import cannot be undone. Idempotent. */
export async function unlockDatastore(context: Context, { force }: { readonly force: boolean }): Promise<Status> {
  const { ports, io, signal } = context;
  return withStore(context, 'write-locked', async (store) => {
    const before = await changeClusterInformation(
      { ...ports, store },
      (cluster) => {
        if (cluster === undefined || !isLocked(cluster)) return undefined;
        if (!force && readMark(cluster)?.isVerified === false) throw unfinished();
        return withMark(withReadiness(cluster, true), undefined);
      },
      signal,
    );
    io.stdout(isLocked(before) ? 'the datastore is unlocked\n' : 'the datastore was not locked\n');
    return 0;
  });
}

/** Returns the number of pre-allocated addresses by the node that owns the block. */
export async function readPreallocated(
  store: AllocationStore,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  const { blocks } = await store.listBlocks(signal);
  const counts = new Map<string, number>();
  for (const { value } of blocks) {
    const node = value.node ?? '';
    if (value.preallocated.size > 0) counts.set(node, (counts.get(node) ?? 0) + value.preallocated.size);
  }
  return counts;
}

export function describePreallocated(counts: ReadonlyMap<string, number>): string {
  const count = [...counts.values()].reduce((sum, each) => sum + each, 0);
  const nodes = [...counts.keys()].map((node) => `"${node}"`).join(', ');
  const agents = counts.size === 1 ? `the agent of node ${nodes} is` : `the agents of nodes ${nodes} are`;
  return `${agents} stopped or disconnected and still ${counts.size === 1 ? 'holds' : 'hold'} ${counted(count, 'pre-allocated address', 'pre-allocated addresses')}`;
}

async function waitForAgents(
  { ports: { clock }, signal }: Context,
  store: AllocationStore,
): Promise<ReadonlyMap<string, number>> {
  const untilMs = clock.monotonic() + AGENTS_TIMEOUT_MS;
  for (;;) {
    const left = await readPreallocated(store, signal);
    if (left.size === 0 || clock.monotonic() >= untilMs) return left;
    await clock.sleep(PERIOD_MS, signal);
  }
}

function withReadiness(cluster: ClusterInformation, datastoreReady: boolean): ClusterInformation {
  return { ...cluster, spec: { ...cluster.spec, datastoreReady } };
}

function unfinished(): NetplugError {
  return new NetplugError('cli/import-refused', 'Cannot unlock: an import into this datastore is unfinished', {
    hint: 'Repeat "netplugctl datastore import" with the same file, with or without --undo, or unlock with --force',
  });
}
