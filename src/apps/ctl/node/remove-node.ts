import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import type { Retired } from '../../../ipam/plan-retirement.ts';
import { dryRunRetirement, retireNode } from '../../../ipam/retire-node.ts';
import type { ResourceKind } from '../../../model/kinds.ts';
import type { NodeName } from '../../../model/names.ts';
import type { Datastore } from '../../../config/connection.ts';
import { withStoreToChange } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { counted } from '../../../base/counted.ts';
import { listReports } from './list-reports.ts';

export interface RemoveNodeOptions {
  readonly node: NodeName;
  /** Action when the orchestrator still has the node. */
  readonly ifPresent: 'refuse' | 'remove';
  readonly mode: Mode;
}

interface Which {
  readonly kind: ResourceKind;
  readonly name: string;
}

/** Removes all records of a node that does not return. @throws resource/in-use while the orchestrator has the node */
export async function removeNode(context: Context, { node, ifPresent, mode }: RemoveNodeOptions): Promise<Status> {
  const { io, signal } = context;
  return withStoreToChange(context, { mode }, async (store, { type }) => {
    if (type === 'orch' && ifPresent === 'refuse') await assertGone(store, node, signal);
    const { summary, problems } = await retireFrom(context, { store, type, node, mode });
    for (const problem of problems) io.stderr(`warning: ${problem}\n`);
    const done = mode === 'dry-run' ? `dry run: ${summary ?? ''}` : summary;
    io.stdout(summary === undefined ? `node ${node} has no records\n` : `${done ?? ''}\n`);
    return 0;
  });
}

export interface Retiring {
  readonly store: AllocationStore & ResourceStore;
  readonly type: Datastore['type'];
  readonly node: NodeName;
  readonly mode: Mode;
}

/** Removes the records of a node from the datastore. The summary is undefined when there are none. Idempotent. */
export async function retireFrom(
  { ports, signal }: Pick<Context, 'ports' | 'signal'>,
  { store, type, node, mode }: Retiring,
): Promise<{ readonly summary: string | undefined; readonly problems: readonly string[] }> {
  const { retired, problems } =
    mode === 'dry-run'
      ? await dryRunRetirement(store, node, signal)
      : await retireNode({ ...ports, store }, node, signal);
  // The orchestrator manages its Nodes; BGPPeers stay there for a new node of that name.
  const records = type === 'orch' ? [] : await recordsOf(store, node, signal);
  const gone = mode === 'dry-run' ? records : await deleteAll(store, records, signal);
  return { summary: summaryOf({ node, retired, gone }), problems };
}

async function assertGone(store: AllocationStore & ResourceStore, node: NodeName, signal: AbortSignal): Promise<void> {
  if ((await store.findResource({ kind: 'Node', name: node }, signal)) === undefined) return;
  throw new NetplugError('resource/in-use', `Cannot remove node "${node}": the orchestrator still has it`, {
    hint: `Run "kubectl delete node ${node}" first, or use --force if its pods do not return`,
    facts: { node },
  });
}

/** Returns the resources to delete, the Node last: while it exists, the removal is visibly unfinished. */
async function recordsOf(
  store: AllocationStore & ResourceStore,
  node: NodeName,
  signal: AbortSignal,
): Promise<readonly Which[]> {
  const { resources: peers } = await store.listResources('BGPPeer', signal);
  const nodes = await store.listResources('Node', signal);
  const reports = await listReports(store, signal);
  return [
    ...peers.filter(({ spec }) => spec.node === node),
    ...reports.resources.filter(({ metadata }) => metadata.name === node),
    ...nodes.resources.filter(({ metadata }) => metadata.name === node),
  ].map(({ kind, metadata: { name } }) => ({ kind, name }));
}

async function deleteAll(
  store: AllocationStore & ResourceStore,
  records: readonly Which[],
  signal: AbortSignal,
): Promise<readonly Which[]> {
  const gone: Which[] = [];
  for (const record of records) {
    try {
      await store.deleteResource(record, signal);
      gone.push(record);
    } catch (cause) {
      if (!isNetplugError(cause, 'resource/not-found')) throw cause;
    }
  }
  return gone;
}

function summaryOf({
  node,
  retired,
  gone,
}: {
  readonly node: NodeName;
  readonly retired: Retired;
  readonly gone: readonly Which[];
}): string | undefined {
  const { addresses, endpoints, returnedBlocks, orphanedBlocks } = retired;
  const peers = gone.filter(({ kind }) => kind === 'BGPPeer').length;
  const parts = [
    addresses === 0 ? [] : `released ${counted(addresses, 'address', 'addresses')}`,
    endpoints === 0 ? [] : `deleted ${counted(endpoints, 'endpoint')}`,
    returnedBlocks === 0 ? [] : `released ${counted(returnedBlocks, 'block')}`,
    orphanedBlocks === 0 ? [] : `left ${counted(orphanedBlocks, 'block')} to other nodes that hold addresses there`,
    peers === 0 ? [] : `deleted ${counted(peers, 'BGPPeer')}`,
    gone.some(({ kind }) => kind === 'Node') ? `removed node ${node}` : [],
  ].flat();
  return parts.length === 0 ? undefined : parts.join(', ');
}
