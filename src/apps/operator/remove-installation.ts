import { CONFIG_MAP, AGENT_SET, BIRD_SET, CLEANUP_SET, INVENTORY, systemObject } from '../../install/cluster/names.ts';
import { TYPHA } from '../../model/typha.ts';
import { cleanupDaemonSet } from '../../install/cluster/cleanup-daemon-set.ts';
import { deleteServerLeases } from '../../install/cluster/server-leases.ts';
import type { ClusterSettings } from '../../install/cluster/settings.ts';
import { CONTROLLERS } from '../../model/automatic-host-endpoint.ts';
import { type ApiObject, isLeaving } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { workloadState } from '../../kube/status/workload-state.ts';
import { type Inventory, planPruning } from './inventory.ts';
import type { ObjectApplier } from './object-applier.ts';
import { collectionHolding, type ObjectReference, referenceKey } from '../../kube/objects/reference.ts';
import { workloadStatus } from './workload-status.ts';

export interface RemovalPorts {
  readonly api: OrchApi;
  readonly applier: ObjectApplier;
  readonly listPods: (signal: AbortSignal) => Promise<readonly ApiObject[]>;
  readonly now: () => number;
}

export interface Removal {
  readonly settings: ClusterSettings;
  readonly inventory: Inventory;
}

/**
 * Takes the next step of a removal: controllers, agents and BIRD, servers of the fan-out, clean-up of every node, conflist, then rights. Returns what
 * it waits for; undefined when everything is removed. Definitions, pools, the namespace and the operator itself stay.
 */
export async function removeInstallation(
  ports: RemovalPorts,
  { settings, inventory }: Removal,
  signal: AbortSignal,
): Promise<string | undefined> {
  const config = systemObject('ConfigMap', CONFIG_MAP);
  const cleanup = cleanupDaemonSet(settings);
  const wait =
    (await remove(ports, [systemObject('Deployment', CONTROLLERS)], signal)) ??
    (await remove(ports, [systemObject('DaemonSet', AGENT_SET), systemObject('DaemonSet', BIRD_SET)], signal)) ??
    (await remove(ports, [systemObject('Deployment', TYPHA)], signal));
  if (wait !== undefined) return wait;
  await deleteServerLeases(ports.api, signal);
  // The ConfigMap goes when every node is clean, which is thereby remembered.
  if ((await ports.applier.read(config, signal)) !== undefined) {
    const unclean = await clean(ports, cleanup, signal);
    if (unclean !== undefined) return unclean;
  }
  const rights = planPruning(inventory, new Set());
  return (
    (await remove(ports, [config], signal)) ??
    (await remove(ports, [systemObject('DaemonSet', CLEANUP_SET)], signal)) ??
    (await remove(ports, rights.filter(isBinding), signal)) ??
    (await remove(
      ports,
      rights.filter((each) => !isBinding(each)),
      signal,
    )) ??
    (await remove(ports, [systemObject('ConfigMap', INVENTORY)], signal))
  );
}

/** Runs the clean-up on every node, and returns which node it waits for. */
async function clean(
  { applier, listPods, now }: RemovalPorts,
  cleanup: ReturnType<typeof cleanupDaemonSet>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const ensured = await applier.ensure(cleanup, undefined, signal);
  if (ensured.outcome === 'problem') return ensured.problem.message;
  if (ensured.outcome === 'waiting' || ensured.outcome === 'unreadable') return ensured.message;
  if (ensured.object === undefined) return undefined;
  const { object } = ensured;
  const state = workloadState(object, 'following');
  // A cluster without nodes is clean.
  if (state?.isObserved === true && state.desired === 0) return undefined;
  const { isInUse, component } = workloadStatus(CLEANUP_SET, {
    object,
    pods: await listPods(signal),
    now: now(),
  });
  return isInUse
    ? undefined
    : `Nodes are being cleaned: ${component.message ?? ''} (delete the Node of a machine that no longer exists)`;
}

/** Deletes the objects that are left, and returns which one it waits for, with its pods. */
async function remove(
  { api, applier, listPods }: RemovalPorts,
  objects: readonly ObjectReference[],
  signal: AbortSignal,
): Promise<string | undefined> {
  for (const which of objects) {
    const live = await applier.read(which, signal);
    if (live === undefined) continue;
    if (!isLeaving(live)) await deleteObserved(api, { which, live }, signal);
    const isLeft = (await applier.read(which, signal)) !== undefined;
    if (isLeft) return `${referenceKey(which)} is being deleted`;
  }
  const names = new Set(
    objects.filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment').map(({ name }) => name),
  );
  if (names.size === 0) return undefined;
  const left = (await listPods(signal)).find(({ metadata }) =>
    names.has(metadata.labels?.['app.kubernetes.io/name'] ?? ''),
  );
  return left === undefined ? undefined : `Pod "${left.metadata.name}" is ending`;
}

/** Deletes exactly the object that was read: not another one of its name. */
export async function deleteObserved(
  api: OrchApi,
  { which, live }: { readonly which: ObjectReference; readonly live: ApiObject },
  signal: AbortSignal,
): Promise<void> {
  const { uid = '' } = live.metadata;
  await api.delete({ collection: collectionHolding(which), name: which.name, preconditions: { uid } }, signal);
}

function isBinding({ kind }: ObjectReference): boolean {
  return kind.endsWith('Binding');
}
