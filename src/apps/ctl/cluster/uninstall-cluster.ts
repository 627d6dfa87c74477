import type { Manifest } from '../../../model/manifest.ts';
import { never, NetplugError } from '../../../base/errors.ts';
import { namespaceObject } from '../../../install/cluster/cluster-objects.ts';
import { OPERATOR, SYSTEM_NAMESPACE, systemObject } from '../../../install/cluster/names.ts';
import { FLOW_PODS } from '../../../install/cluster/probe-objects.ts';
import type { ClusterSettings } from '../../../install/cluster/settings.ts';
import { NODES } from '../../../kube/paths.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { carryOut } from '../../../plans/carry-out.ts';
import { memoryPlanRecords } from '../../../plans/plan-records.ts';
import { isEmpty, renderPlan } from '../../../plans/plan.ts';
import type { Context, Status } from '../ports.ts';
import { applyObject, deleteObject, findObject, tryMerge } from '../../../kube/objects/apply.ts';
import {
  collectionHolding,
  objectName,
  type ObjectReference,
  referenceKey,
  referenceOf,
  referenceTo,
} from '../../../kube/objects/reference.ts';
import { readClusterConnection } from './cluster-access.ts';
import { installationObject } from './cluster-plan.ts';
import { confirm, type ConfirmMode } from './confirm.ts';
import { openHelm } from './helm.ts';
import { podRun, podsNamed, type PodRun, removePodsNamed, SYSTEM_PODS } from './node-pods.ts';
import { removeProof } from './prove-network.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { helmReleaseOf } from './read-preflight-facts.ts';
import {
  CLEANUP_NAME,
  cleanupObject,
  type RemovalAct,
  removableObjects,
  removalPlan,
  type RemovalFacts,
  settingsForRemoval,
} from './uninstall-plan.ts';
import { waitForWorkload } from './wait-ready.ts';
import { type WaitState, waitUntil } from './wait-until.ts';

const POLLS_BEFORE_RETRY = 5;
const ANNOTATION_PREFIX = 'netplug.io/';

export interface ClusterRemovalOptions {
  readonly extent: 'programs' | 'everything';
  readonly registry: string | undefined;
  readonly mode: ConfirmMode;
}

/** Removes netplug from the cluster, whichever method installed it. */
export async function uninstallCluster(
  context: Context,
  { extent, registry, mode }: ClusterRemovalOptions,
): Promise<Status> {
  const { io, ports, signal } = context;
  const { api: access } = await readClusterConnection(context, undefined);
  await using api = ports.openApi(access);
  const settings = settingsForRemoval(registry);
  const objects = allObjects(settings);
  const facts = await readRemovalFacts(api, objects, signal);
  const helm = facts.helm === undefined ? undefined : await openHelm(context, access);
  const plan = removalPlan(settings, facts, extent);
  for (const note of plan.notes) io.stderr(`${note}\n`);
  io.stdout(renderPlan(plan));
  if (mode === 'dry-run') return 0;
  if (!isEmpty(plan) && mode === 'ask' && !(await confirm(context, 'Remove netplug from this cluster?'))) return 1;
  const run = podRun(api, context);
  // What a killed program has left has an address of netplug.
  await removeProof(run);
  await removePodsNamed(run, FLOW_PODS);
  if (isEmpty(plan)) return 0;
  const act = async (step: RemovalAct): Promise<void> => {
    switch (step.act) {
      case 'helm':
        return helm?.uninstall(step);
      case 'release-installation':
        return releaseInstallation(api, signal);
      case 'delete':
        await deleteObject(api, referenceOf(named(objects, step.object)), signal);
        return;
      case 'await-gone':
        return waitUntilGone(
          run,
          step.objects.map((key) => named(objects, key)),
        );
      case 'await-pods-gone':
        return waitUntilNoPods(run, step.names);
      case 'clean-nodes':
        return cleanNodes(run, settings);
      case 'forget-nodes':
        return forgetNodes(api, signal);
      default:
        return never(step);
    }
  };
  await carryOut(
    {
      name: 'uninstall-cluster',
      records: memoryPlanRecords(),
      afterwards: 'remove-record',
      actor: { inspect: async () => Promise.resolve('before'), apply: act },
      onStage: (title) => {
        io.stderr(`${title}\n`);
      },
      signal,
    },
    plan,
  );
  io.stdout(extent === 'everything' ? 'netplug is removed\n' : 'the programs of netplug are removed\n');
  return 0;
}

function allObjects(settings: ClusterSettings): ReadonlyMap<string, Manifest> {
  const { operator, programs, plugin, rest, definitions } = removableObjects(settings);
  const all = [...operator, ...programs, ...plugin, ...rest, ...definitions, namespaceObject(settings.release)];
  return new Map(all.map((object) => [objectName(object), object]));
}

function named(objects: ReadonlyMap<string, Manifest>, key: string): Manifest {
  const object = objects.get(key);
  if (object === undefined) throw new Error(`the plan has no object ${key}`);
  return object;
}

async function readRemovalFacts(
  api: OrchApi,
  objects: ReadonlyMap<string, Manifest>,
  signal: AbortSignal,
): Promise<RemovalFacts> {
  const existing = new Set<string>();
  for (const [key, object] of objects) {
    if ((await findObject(api, referenceOf(object), signal)) !== undefined) existing.add(key);
  }
  const operator = await findObject(api, systemObject('Deployment', OPERATOR), signal);
  const installation = referenceOf(installationObject({}));
  const { plural, group } = collectionHolding(installation);
  const definition = referenceTo('CustomResourceDefinition', { name: `${plural}.${group}` });
  const isServed = (await findObject(api, definition, signal)) !== undefined;
  return {
    existing,
    helm: operator && helmReleaseOf(operator),
    hasInstallation: isServed && (await findObject(api, installation, signal)) !== undefined,
    nodes: (await readNodes(api, signal)).map(({ name }) => name),
  };
}

/** The operator, which would act on the deletion, is removed already. */
async function releaseInstallation(api: OrchApi, signal: AbortSignal): Promise<void> {
  const which = referenceOf(installationObject({}));
  await deleteObject(api, which, signal);
  if ((await findObject(api, which, signal)) === undefined) return;
  await tryMerge(api, { which, body: { metadata: { finalizers: null } } }, signal);
}

async function waitUntilGone(run: PodRun, objects: readonly Manifest[]): Promise<void> {
  const { api, signal } = run;
  for (const object of objects) {
    const which = referenceOf(object);
    let polls = 0;
    const look = async (): Promise<WaitState<undefined>> => {
      if ((await findObject(api, which, signal)) === undefined) return { found: undefined };
      if (polls > 0 && polls % POLLS_BEFORE_RETRY === 0) await retryDeletion(api, which, { signal, retry: polls });
      polls += 1;
      return { open: `waiting for the end of ${referenceKey(which)}` };
    };
    await waitUntil(run, look, notRemoved);
  }
}

function notRemoved(open: string, why: string): NetplugError {
  return new NetplugError('install/not-ready', `${why} while removing the installation: ${open}`, {
    hint: 'Run the command again, with a longer --timeout, or find out what keeps it',
  });
}

/**
 * A change makes the API server try again at once. It waits ever longer between its own attempts, which fail while it
 * still opens the storage of a definition that is young.
 */
async function retryDeletion(
  api: OrchApi,
  which: ObjectReference,
  { signal, retry }: { readonly signal: AbortSignal; readonly retry: number },
): Promise<void> {
  const body = { metadata: { annotations: { [`${ANNOTATION_PREFIX}removal-retry`]: String(retry) } } };
  await tryMerge(api, { which, body }, signal);
}

async function waitUntilNoPods(run: PodRun, names: readonly string[]): Promise<void> {
  const { api, signal } = run;
  await waitUntil(
    run,
    async () => {
      const left = (await api.list(SYSTEM_PODS, { ...podsNamed(names), only: 'names' }, signal)).length;
      return left === 0 ? { found: undefined } : { open: `${String(left)} pods still end` };
    },
    notRemoved,
  );
}

/** Runs the removal of a node on every node at once. */
async function cleanNodes(run: PodRun, settings: ClusterSettings): Promise<void> {
  const { api, signal } = run;
  const cleanup = cleanupObject(settings);
  await applyObject(api, { object: namespaceObject(settings.release) }, signal);
  await applyObject(api, { object: cleanup }, signal);
  try {
    await waitForWorkload(run, { kind: 'DaemonSet', name: CLEANUP_NAME });
  } catch (cause) {
    if (!signal.aborted) throw cause;
    throw new NetplugError('install/not-ready', 'Timed out while cleaning the nodes', {
      hint: `Look at "kubectl -n ${SYSTEM_NAMESPACE} logs ds/${CLEANUP_NAME} -c clean", and run the command again`,
      cause,
    });
  }
  await deleteObject(api, referenceOf(cleanup), signal);
  await waitUntilNoPods({ ...run, onProgress: () => undefined }, [CLEANUP_NAME]);
}

/** Removes what agents have noted on Node objects. */
async function forgetNodes(api: OrchApi, signal: AbortSignal): Promise<void> {
  for (const { metadata } of await api.list(NODES, {}, signal)) {
    const own = Object.keys(metadata.annotations ?? {}).filter((key) => key.startsWith(ANNOTATION_PREFIX));
    if (own.length === 0) continue;
    const body = { metadata: { annotations: Object.fromEntries(own.map((key) => [key, null])) } };
    await api.patch({ collection: NODES, name: metadata.name }, { kind: 'merge', body }, signal);
  }
}
