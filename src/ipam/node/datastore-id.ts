import type { ResourceStore } from '../../datastore/resource-store.ts';
import type { AllocationStore } from '../../datastore/allocation-store.ts';
import type { Brand } from '../../base/brand.ts';
import { NetplugError } from '../../base/errors.ts';
import type { RetryPorts } from '../../base/back-off.ts';
import { ensureClusterId, newGuid } from '../../datastore/keep-cluster-information.ts';
import type { NodeName } from '../../model/names.ts';
import type { Datastore } from '../../config/connection.ts';

/** Identifies a datastore independently of its configuration: its type and the id of the cluster whose records it holds. */
export type DatastoreId = Brand<string, 'DatastoreId'>;

/** Returns the id of the cluster's datastore, of the given type or of the type of another id. */
export function datastoreIdOf(like: Datastore['type'] | DatastoreId, clusterId: string): DatastoreId {
  const [type] = like.split(':', 1);
  return `${type ?? ''}:${clusterId}` as DatastoreId; // made here and nowhere else
}

/** Returns the cluster id in the datastore id. */
export function clusterIdIn(id: DatastoreId): string {
  return id.slice(id.indexOf(':') + 1);
}

/**
 * Identifies the datastore that the store reaches, and writes a cluster id to a datastore without one.
 * @throws store/*
 */
export async function identifyDatastore(
  ports: RetryPorts & { readonly store: AllocationStore & ResourceStore },
  { type, node }: { readonly type: Datastore['type']; readonly node: NodeName },
  signal: AbortSignal,
): Promise<DatastoreId> {
  const { clusterId } = await ports.store.readNodeView(node, undefined, signal);
  return datastoreIdOf(type, clusterId ?? (await ensureClusterId(ports, newGuid(ports), signal)));
}

/** Returns the error for a datastore that was replaced by another one behind the same address. */
export function datastoreReplaced(expected: DatastoreId, found: DatastoreId): NetplugError {
  return new NetplugError(
    'store/replaced',
    `Cannot use the datastore: it holds the records of "${found}", and this agent serves "${expected}"`,
    {
      hint: 'Restore the datastore, or correct its address, and restart netplug-agent; the journals of the other one stay',
      facts: { expected, found },
    },
  );
}
