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

/** What was decided on a view read before the lock is written by then. */
const SETTLE_MS = 2000;
/** How long agents get to give back what they have set aside; those that live need milliseconds. */
const PATIENCE_MS = 10_000;
const PERIOD_MS = 500;

/** From here on nobody assigns or releases addresses, until `unlock`. Repeating it is fine. */
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
    io.stdout(isLocked(before) ? 'the datastore was locked already\n' : 'the datastore is locked\n');
    if (!isLocked(before)) await ports.clock.sleep(SETTLE_MS, signal);
    const left = await stockLeft(context, store);
    if (left.size > 0) io.stderr(`warning: ${describeStock(left)}\n`);
    return 0;
  });
}

/** Addresses are assigned and released again; from here on an import cannot be undone. Repeating it is fine. */
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

/** How many addresses agents have set aside, by the node that owns the block. */
export async function readStock(store: AllocationStore, signal: AbortSignal): Promise<ReadonlyMap<string, number>> {
  const { blocks } = await store.listBlocks(signal);
  const stock = new Map<string, number>();
  for (const { value } of blocks) {
    const node = value.node ?? '';
    if (value.preallocated.size > 0) stock.set(node, (stock.get(node) ?? 0) + value.preallocated.size);
  }
  return stock;
}

export function describeStock(stock: ReadonlyMap<string, number>): string {
  const count = [...stock.values()].reduce((sum, each) => sum + each, 0);
  const nodes = [...stock.keys()].map((node) => `"${node}"`).join(', ');
  const agents = stock.size === 1 ? `the agent of node ${nodes} has` : `the agents of nodes ${nodes} have`;
  return `${agents} set ${counted(count, 'address', 'addresses')} aside and not given them back: stopped, or cut off`;
}

async function stockLeft(
  { ports: { clock }, signal }: Context,
  store: AllocationStore,
): Promise<ReadonlyMap<string, number>> {
  const untilMs = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    const left = await readStock(store, signal);
    if (left.size === 0 || clock.monotonic() >= untilMs) return left;
    await clock.sleep(PERIOD_MS, signal);
  }
}

function withReadiness(cluster: ClusterInformation, datastoreReady: boolean): ClusterInformation {
  return { ...cluster, spec: { ...cluster.spec, datastoreReady } };
}

function unfinished(): NetplugError {
  return new NetplugError('cli/import-refused', 'Cannot unlock: an import into this datastore has not ended', {
    hint: 'Repeat "netplugctl datastore import" with the same file, or undo it with --undo; --force unlocks as it is',
  });
}
