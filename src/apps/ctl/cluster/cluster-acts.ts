import { CHART } from '../../../install/cluster/chart/chart-files.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import { deleteServerLeases } from '../../../install/cluster/server-leases.ts';
import { applyObject, deleteObject, findObject } from '../../../kube/objects/apply.ts';
import { objectName, type ObjectReference, referenceKey } from '../../../kube/objects/reference.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import { type Act, type Acts, actorOf } from '../../../plans/acts.ts';
import { carryOutUnrecorded } from '../../../plans/carry-out.ts';
import type { Plan } from '../../../plans/plan.ts';
import { checkNodes } from './check-nodes.ts';
import { cleanNodes, releaseInstallation, waitUntilGone, waitUntilNoPods } from './clean-cluster.ts';
import { createPools, type PoolPorts } from './create-pools.ts';
import { forgetNotes } from './forget-notes.ts';
import type { Helm, HelmRelease } from './helm.ts';
import type { PodRun } from './node-pods.ts';
import { type Proof, proveNetwork } from './prove-network.ts';
import {
  waitForDefinitions,
  waitForInstallation,
  waitForNodes,
  waitForWorkload,
  type WorkloadName,
} from './wait-ready.ts';

/** Data of a step of an installation or a removal. */
export type ClusterAct =
  | { readonly act: 'apply'; readonly object: Manifest; readonly verb: 'create' | 'change' }
  | { readonly act: 'delete'; readonly objects: readonly ObjectReference[]; readonly why?: string }
  | { readonly act: 'check-nodes'; readonly pods: readonly Manifest[] }
  | { readonly act: 'create-pools'; readonly pools: readonly IpPool[] }
  | { readonly act: 'install-chart'; readonly values: object }
  | { readonly act: 'uninstall-chart'; readonly release: HelmRelease }
  | { readonly act: 'await-definitions'; readonly names: readonly string[] }
  | { readonly act: 'await-workload'; readonly workload: WorkloadName }
  | { readonly act: 'await-installation' }
  | { readonly act: 'await-nodes' }
  | ({ readonly act: 'prove' } & Omit<Proof, 'addressFaults'>)
  | { readonly act: 'release-installation'; readonly installation: ObjectReference }
  | { readonly act: 'await-pods-gone'; readonly names: readonly string[] }
  | { readonly act: 'delete-server-leases' }
  | { readonly act: 'clean-nodes'; readonly nodes: number; readonly cleanup: readonly Manifest[] }
  | { readonly act: 'forget-notes' }
  | { readonly act: 'await-gone'; readonly objects: readonly ObjectReference[] };

export interface ClusterPorts extends PoolPorts {
  readonly run: PodRun;
  readonly helm: Helm | undefined;
}

/** Deletes objects that may be gone already. */
export const DELETION: Act<
  { readonly objects: readonly ObjectReference[]; readonly why?: string },
  { readonly run: Pick<PodRun, 'api' | 'signal'> }
> = {
  text: ({ objects, why }) => `delete ${objects.map(referenceKey).join(', ')}${why === undefined ? '' : `, ${why}`}`,
  isDone: async ({ objects }, { run: { api, signal } }) => {
    for (const object of objects) if ((await findObject(api, object, signal)) !== undefined) return false;
    return true;
  },
  apply: async ({ objects }, { run: { api, signal } }) => {
    for (const object of objects) await deleteObject(api, object, signal);
  },
};

/** Without a record, the cluster itself shows what is left: a repeated command makes a plan of it. */
export const CLUSTER_ACTS: Acts<ClusterAct, ClusterPorts> = {
  apply: {
    text: ({ object, verb }) => `${verb} ${objectName(object)}`,
    apply: async ({ object }, { run }) => void (await applyObject(run.api, { object }, run.signal)),
  },
  delete: DELETION,
  'check-nodes': {
    text: () => 'start a pod on each node that looks at configurations of other plugins, kernel and ports',
    apply: async ({ pods }, { run }) => checkNodes(run, pods),
  },
  'create-pools': {
    text: ({ pools }) =>
      `create unless there is one: ${pools.map(({ metadata, spec }) => `${metadata.name} (${spec.cidr})`).join(', ')}`,
    apply: async ({ pools }, ports) => createPools(ports, pools),
  },
  'install-chart': {
    text: () => `helm upgrade --install ${CHART}`,
    apply: async ({ values }, { helm }) => helm?.install({ name: CHART, namespace: SYSTEM_NAMESPACE }, values),
  },
  'uninstall-chart': {
    text: ({ release: { name, namespace } }) => `helm uninstall ${name} --namespace ${namespace}`,
    apply: async ({ release }, { helm }) => helm?.uninstall(release),
  },
  'await-definitions': {
    text: () => 'wait until they are served',
    apply: async ({ names }, { run }) => waitForDefinitions(run, names),
  },
  'await-workload': {
    text: ({ workload: { kind, name } }) => `until ${name} runs${kind === 'DaemonSet' ? ' on every node' : ''}`,
    apply: async ({ workload }, { run }) => waitForWorkload(run, workload),
  },
  'await-installation': {
    text: () => 'until the installation is available',
    apply: async (_, { run }) => waitForInstallation(run, 'available'),
  },
  'await-nodes': { text: () => 'until every node is ready', apply: async (_, { run }) => waitForNodes(run) },
  prove: {
    text: () => 'start a pair of pods on each node, which reach the pods of every node and a Service; then remove them',
    apply: async (proof, { run }) => proveNetwork(run, proof),
  },
  'release-installation': {
    text: ({ installation }) => `delete ${referenceKey(installation)}`,
    apply: async ({ installation }, { run }) => releaseInstallation(run, installation),
  },
  'await-pods-gone': {
    text: ({ names }) => `wait until no pod of ${names.join(', ')} is left`,
    apply: async ({ names }, { run }) => waitUntilNoPods(run, names),
  },
  'delete-server-leases': {
    text: () => 'delete the Leases that servers of the fan-out have left',
    apply: async (_, { run: { api, signal } }) => deleteServerLeases(api, signal),
  },
  'clean-nodes': {
    text: ({ nodes }) =>
      `remove plugin, configuration, interfaces, routes, rules and state from ${String(nodes)} nodes`,
    apply: async ({ cleanup }, { run }) => cleanNodes(run, cleanup),
    isFinal: true,
  },
  'forget-notes': {
    text: () => 'remove the annotations of netplug from Nodes and pods, and its conditions from Nodes',
    apply: async (_, { run }) => forgetNotes(run),
    isFinal: true,
  },
  'await-gone': {
    text: () => 'wait until all is gone',
    apply: async ({ objects }, { run }) => waitUntilGone(run, objects),
  },
};

/** Carries a plan out, and prints the titles of its stages on standard error. */
export async function carryOutActs(plan: Plan<ClusterAct>, ports: ClusterPorts): Promise<void> {
  const { io, signal } = ports.context;
  const onStage = (title: string): void => {
    io.stderr(`${title}\n`);
  };
  await carryOutUnrecorded(plan, { actor: actorOf(CLUSTER_ACTS, ports), onStage, signal });
}
