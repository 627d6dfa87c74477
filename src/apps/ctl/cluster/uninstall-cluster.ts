import { given } from '../../../base/given.ts';
import { VERSION } from '../../../base/version.ts';
import type { InstallationSpec } from '../../../model/installation.ts';
import { installedSettings } from '../../../upgrade/cluster/installed-spec.ts';
import { readInstalledObjects, snapshotOf } from '../upgrade/read-objects.ts';
import { namespaceObject } from '../../../install/cluster/cluster-objects.ts';
import { OPERATOR, systemObject } from '../../../install/cluster/names.ts';
import { FLOW_PODS } from '../../../install/cluster/probe-objects.ts';
import { listServers } from '../../../install/cluster/server-leases.ts';
import type { ClusterSettings } from '../../../install/cluster/settings.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { collectionHolding, referenceKey, referenceOf, referenceTo } from '../../../kube/objects/reference.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { PODS } from '../../../kube/paths.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { isEmpty, renderPlan } from '../../../plans/plan.ts';
import type { Context, Status } from '../ports.ts';
import { carryOutActs } from './cluster-acts.ts';
import { readClusterConnection } from './cluster-access.ts';
import { installationObject } from './cluster-plan.ts';
import { describeCluster, readClusterIdentity, refuseOtherCluster } from './cluster-identity.ts';
import { confirm, type ConfirmMode } from './confirm.ts';
import { openHelm } from './helm.ts';
import { podRun, removePodsNamed } from './node-pods.ts';
import { removeProof } from './prove-network.ts';
import { helmReleaseOf } from './read-preflight-facts.ts';
import { findMeshRemains } from '../mesh/find-mesh-remains.ts';
import { removableObjects, removalPlan, type RemovalFacts, settingsForRemoval } from './uninstall-plan.ts';

/** Selects the pods that plugins have connected. */
const RUNNING_ON_NETWORK = { fieldSelector: 'status.phase=Running,spec.hostNetwork=false', only: 'names' } as const;
const NAME_IT = 'Add --yes and --cluster with the name of its context or its id, or see the plan with --dry-run';

export interface ClusterRemovalOptions {
  readonly extent: 'programs' | 'everything';
  readonly registry: string | undefined;
  readonly mode: ConfirmMode;
  /** The cluster that the user means, by the name of its context or its id. */
  readonly cluster: string | undefined;
}

/** Removes netplug from the cluster, whichever method installed it. */
export async function uninstallCluster(
  context: Context,
  { extent, registry, mode, cluster: named }: ClusterRemovalOptions,
): Promise<Status> {
  const { io, ports, signal } = context;
  const { api: access } = await readClusterConnection(context, undefined);
  await using api = ports.openApi(access);
  const identity = await readClusterIdentity(api, signal);
  if (named !== undefined) refuseOtherCluster(named, identity);
  const settings = settingsForRemoval({ ...(await readInstalledSpec(api, signal)), ...given({ registry }) });
  const facts = await readRemovalFacts(api, { settings, extent }, signal);
  const helm = facts.helm === undefined ? undefined : await openHelm(context, access);
  const plan = removalPlan(settings, facts, extent);
  for (const note of plan.notes) io.stderr(`${note}\n`);
  const cluster = describeCluster(identity);
  io.stdout(`cluster: ${cluster}\n${renderPlan(plan)}`);
  if (mode === 'dry-run') return 0;
  // Nothing brings back what a purge takes: --yes alone could be meant for another cluster.
  const isUnnamed = extent === 'everything' && named === undefined;
  const question = `Remove ${extent === 'everything' ? 'everything of netplug' : 'netplug'} from the cluster with ${cluster}?`;
  const instead = isUnnamed ? NAME_IT : undefined;
  if (!isEmpty(plan) && (mode === 'ask' || isUnnamed) && !(await confirm(context, question, instead))) return 1;
  const run = podRun(api, context);
  // What a killed program has left has an address of netplug.
  await removeProof(run);
  await removePodsNamed(run, FLOW_PODS);
  if (isEmpty(plan)) return 0;
  await carryOutActs(plan, { run, context, helm, kv: undefined });
  io.stdout(extent === 'everything' ? 'netplug is removed\n' : 'the programs of netplug are removed\n');
  return 0;
}

/** Returns the settings that the objects of the cluster show. */
async function readInstalledSpec(api: OrchApi, signal: AbortSignal): Promise<InstallationSpec> {
  const objects = await readInstalledObjects(api, await api.servedKinds(signal), signal);
  return installedSettings({ objects: objects.map(snapshotOf), pods: [], nodes: [], tool: VERSION }).spec;
}

async function readRemovalFacts(
  api: OrchApi,
  { settings, extent }: { readonly settings: ClusterSettings; readonly extent: ClusterRemovalOptions['extent'] },
  signal: AbortSignal,
): Promise<RemovalFacts> {
  const existing = new Set<string>();
  const removable = [...Object.values(removableObjects(settings)).flat(), namespaceObject(settings.release)];
  for (const which of removable.map(referenceOf))
    if ((await findObject(api, which, signal)) !== undefined) existing.add(referenceKey(which));
  const operator = await findObject(api, systemObject('Deployment', OPERATOR), signal);
  const installation = referenceOf(installationObject({}));
  const { plural, group } = collectionHolding(installation);
  const definition = referenceTo('CustomResourceDefinition', { name: `${plural}.${group}` });
  const pods = extent === 'everything' ? await api.list(PODS, RUNNING_ON_NETWORK, signal) : [];
  const isServed = (await findObject(api, definition, signal)) !== undefined;
  return {
    existing,
    helm: operator && helmReleaseOf(operator),
    hasInstallation: isServed && (await findObject(api, installation, signal)) !== undefined,
    hasServerLeases: (await listServers(api, signal)).length > 0,
    mesh: await findMeshRemains(api, signal),
    pods: pods.map(({ metadata: { namespace = '', name } }) => `${namespace}/${name}`),
    nodes: (await readNodes(api, signal)).map(({ name }) => name),
  };
}
