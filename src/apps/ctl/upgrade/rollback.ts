import { join } from 'node:path';
import { NetplugError } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import { ROLLING } from '../../../install/cluster/agent-daemon-set.ts';
import { AGENT_SET, OPERATOR } from '../../../install/cluster/names.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { changeClusterInformation } from '../../../datastore/keep-cluster-information.ts';
import { CLUSTER_INFORMATION_ID, type ClusterInformation } from '../../../model/cluster-information.ts';
import { HOLD_AGENTS } from '../../../model/installation.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import type { ResourceId } from '../../../model/resource-id.ts';
import { userCreated } from '../../../upgrade/host-endpoints/all-interfaces.ts';
import { followingPods } from '../../../upgrade/cluster/detect-installation.ts';
import { isOnDelete, NOTES } from '../../../upgrade/cluster/held-agents.ts';
import { metadataIn, recordIn, releaseIn } from '../../../upgrade/cluster/objects-in.ts';
import type { PodState } from '../../../kube/status/pod-state.ts';
import type { HostEndpoint } from '../../../model/host-endpoint.ts';
import { confirm, type ConfirmMode } from '../cluster/confirm.ts';
import { changeStored } from '../resources/write-resource.ts';
import { annotate, deleteObject, findObject } from '../../../kube/objects/apply.ts';
import { diffObjects } from '../../../kube/objects/diff.ts';
import { collectionHolding, objectName, referenceKey, referenceOf } from '../../../kube/objects/reference.ts';
import { removeProof } from '../cluster/prove-network.ts';
import { waitFor, waitForWorkload, workloadLag } from '../cluster/wait-ready.ts';
import type { Context, Status } from '../ports.ts';
import { podRun } from '../cluster/node-pods.ts';
import { recordOf } from './apply-upgrade.ts';
import { type Backup, readBackup } from './backup.ts';
import { type UpgradeSession, withUpgrade } from './open-upgrade.ts';
import { readChartRecords } from './read-charts.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { readPods } from './read-nodes.ts';
import { readInstalledObjects } from './read-objects.ts';
import { UPGRADE_NAMES } from './read-records.ts';
import { mainImage } from './roll-out.ts';
import { OWN_NAMESPACE } from './upgrade-actor.ts';
import { stopFlow } from './watch-packets.ts';
import { withUpgradeLease } from './with-upgrade-lease.ts';

export interface RollbackOptions {
  /** Folder of the backup; that of the last upgrade unless given. */
  readonly from: string | undefined;
  readonly mode: ConfirmMode;
}

/** Writes by others that are tolerated while one object is put back. */
const TRIES = 5;
/** Kinds in the order in which they are put back: what pods use before the pods. Pools and the like are records. */
const ORDER = [
  'Namespace',
  'ServiceAccount',
  'ClusterRole',
  'ClusterRoleBinding',
  'Role',
  'RoleBinding',
  'Secret',
  'ConfigMap',
  'APIServer',
  'Installation',
  'Deployment',
  'DaemonSet',
];

interface Step {
  readonly text: string;
  readonly act: () => Promise<void>;
}

/** Puts the state of a backup back: it compares the cluster with it each time, so that it goes on after an interruption. */
export async function rollBack(context: Context, options: RollbackOptions): Promise<Status> {
  return withUpgrade(context, async (session) => {
    if (options.mode !== 'apply') {
      const { release, shown } = await readSteps(session, options);
      context.io.stdout(shown);
      if (options.mode === 'dry-run') return 0;
      if (!(await confirm(context, `Go back to ${release}?`))) return 1;
    }
    return withUpgradeLease(session, async (alone) => putStateBack(alone, options));
  });
}

async function putStateBack(session: UpgradeSession, options: RollbackOptions): Promise<Status> {
  const { api, context } = session;
  const { io, ports, signal } = context;
  const { release, steps, shown } = await readSteps(session, options);
  if (options.mode === 'apply') io.stdout(shown);
  const run = podRun(api, context);
  await stopFlow(run);
  // A call that was overtaken while it proved the network writes nothing more.
  await removeProof(run);
  for (const { text, act } of steps) {
    await act();
    io.stderr(`  done: ${text}\n`);
  }
  const annotations = { [NOTES.backup]: null, [NOTES.canary]: null, [NOTES.verified]: null };
  await annotate(api, { which: OWN_NAMESPACE, annotations }, signal);
  await ports.planRecords.remove(recordOf(session));
  io.stdout(`the cluster has release ${release} again; pods kept running\n`);
  return 0;
}

/** Compares the cluster with the backup: what differs, and how it is shown. @throws upgrade/refused, upgrade/backup-unusable */
async function readSteps(
  session: UpgradeSession,
  { from }: RollbackOptions,
): Promise<{ readonly release: string; readonly steps: readonly Step[]; readonly shown: string }> {
  const { api, context } = session;
  const { ports, signal } = context;
  const backup = await readBackup(from ?? join(ports.machine.stateDir, 'backups', recordOf(session)));
  const { from: release, to, at } = backup.header;
  const live = await readInstalledObjects(api, await api.servedKinds(signal), signal);
  await refuseBeyondReturn(session, backup, live);
  const steps = [
    ...objectSteps(session, { backup, live, pods: await readPods(api, signal) }),
    ...(await chartSteps(session, backup)),
    ...(await recordSteps(session, backup)),
  ];
  const lines = steps.length === 0 ? ['nothing: the cluster is as in the backup'] : steps.map(({ text }) => text);
  const shown = [`back from ${to} to ${release}, as backed up at ${at}\n`, ...lines.map((line) => `   ${line}\n`)];
  return { release, steps, shown: shown.join('') };
}

/** @throws upgrade/refused */
async function refuseBeyondReturn(
  { store, uid, context: { signal } }: UpgradeSession,
  { header, records }: Backup,
  live: readonly Manifest[],
): Promise<void> {
  if (header.cluster !== undefined && header.cluster !== uid) {
    throw rollbackRefused(
      `the backup is of cluster ${header.cluster}, and this one is ${uid}`,
      'Name the backup of this cluster, or the kubeconfig of that one',
    );
  }
  const known = [header.from, header.to];
  const foreign = live
    .filter(isWorkload)
    .map((object) => ({ name: objectName(object), release: releaseIn(mainImage(object)) }))
    .find(({ release }) => release !== undefined && !known.includes(release));
  if (foreign !== undefined) {
    throw rollbackRefused(
      `${foreign.name} has release ${foreign.release ?? ''}, and the backup is from before ${header.to}`,
    );
  }
  if (header.to !== VERSION)
    throw rollbackRefused(`the backup is of an upgrade to ${header.to}, and this tool is ${VERSION}`);
  const before = userCreated(records.resources.filter(isHostEndpoint));
  const { resources: now } = await store.listResources('HostEndpoint', signal);
  const gone = before.find((each) => now.every(({ metadata }) => metadata.name !== each.metadata.name));
  if (gone !== undefined) {
    throw rollbackRefused(
      `HostEndpoint "${gone.metadata.name}" has been replaced or deleted since`,
      'Undo "netplugctl host-endpoints migrate" with its option --undo first',
    );
  }
}

function objectSteps(
  session: UpgradeSession,
  {
    backup,
    live,
    pods,
  }: { readonly backup: Backup; readonly live: readonly Manifest[]; readonly pods: readonly PodState[] },
): readonly Step[] {
  const { signal } = session.context;
  const there = new Map(live.map((object) => [objectName(object), object]));
  const before = new Set(backup.objects.map(objectName));
  const wanted = backup.objects.map(withoutHold).sort((a, b) => rank(a) - rank(b));
  const restored = wanted.filter(
    (object) => diffObjects(withoutNotes(there.get(objectName(object)) ?? {}), withoutNotes(object)).length > 0,
  );
  const put = (object: Manifest): Step => ({
    text: `${there.has(objectName(object)) ? 'put back' : 'create'} ${objectName(object)}`,
    act: async () => putBack(session, object),
  });
  // An earlier rollback may have put the object back, and not have waited to the end.
  const hasFollowed = (object: Manifest): boolean => {
    const now = there.get(objectName(object));
    const isBack = !restored.includes(object) && now !== undefined && workloadLag(now) === undefined;
    return isBack && !hasOther(pods, releasedWorkload(object));
  };
  const wait = (object: Manifest): Step => ({
    text: `wait until ${metadataIn(object).name} runs everywhere`,
    act: async () => waitForRelease(session, releasedWorkload(object)),
  });
  const followers = wanted.filter((object) => isWorkload(object) && !hasFollowed(object));
  const byHand = followers.filter((object) => metadataIn(object).name === AGENT_SET && isOnDelete(object));
  // As long as the newer operator works, it would undo what follows, and roll its agents out once nothing holds them.
  const isEarly = (object: Manifest): boolean => rank(object) < ORDER.indexOf('APIServer');
  const putBackInOrder = [
    ...restored.filter(isEarly).map(put),
    ...followers.filter(isOperator).map(wait),
    ...restored.filter((object) => !isEarly(object) && !byHand.includes(object)).map(put),
    // Agents that are replaced only by hand would stay those of the newer release.
    ...byHand.map((object) => put({ ...object, spec: { ...recordIn(object, 'spec'), updateStrategy: ROLLING } })),
  ];
  const waits = [
    ...followers.filter((object) => !isOperator(object)).map(wait),
    ...byHand.map((object) => ({ ...put(object), text: `put back the strategy of ${objectName(object)}` })),
  ];
  const added = live.filter(
    (object) => !before.has(objectName(object)) && backup.header.applied.includes(objectName(object)),
  );
  const removed = [...added]
    .sort((a, b) => rank(b) - rank(a))
    .map((object): Step => ({
      text: `delete ${objectName(object)}, which the upgrade has created`,
      act: async () => {
        await deleteObject(session.api, referenceOf(object), signal);
      },
    }));
  return [...putBackInOrder, ...waits, ...removed];
}

interface ReleasedWorkload {
  readonly kind: 'DaemonSet' | 'Deployment';
  readonly name: string;
  /** Undefined when its image does not tell. */
  readonly release: string | undefined;
}

function releasedWorkload(object: Manifest): ReleasedWorkload {
  const kind = object['kind'] === 'DaemonSet' ? 'DaemonSet' : 'Deployment';
  return { kind, name: metadataIn(object).name, release: releaseIn(mainImage(object)) };
}

/** Waits until the workload runs everywhere, and no pod of another release is left. */
async function waitForRelease({ api, context }: UpgradeSession, workload: ReleasedWorkload): Promise<void> {
  const run = podRun(api, context);
  const down = (await readNodes(api, run.signal)).filter(({ isReady }) => !isReady).map(({ name }) => name);
  if (workload.kind === 'DaemonSet' && down.length > 0)
    run.onProgress(`not ready: ${down.join(', ')}; repair or delete these nodes, or the others do not all follow`);
  await waitForWorkload(run, workload);
  await waitFor(run, workload.name, async () =>
    hasOther(await readPods(api, run.signal), workload) ? 'pods of another release are left' : undefined,
  );
}

function hasOther(pods: readonly PodState[], { name, release }: ReleasedWorkload): boolean {
  return (
    release !== undefined &&
    followingPods(pods).some(({ component, images: [own = ''] }) => component === name && releaseIn(own) !== release)
  );
}

/** Replaces the object by that of the backup, with the managers of its fields; creates it when it is gone. @throws upgrade/refused */
async function putBack({ api, context: { signal } }: UpgradeSession, object: Manifest): Promise<void> {
  const which = referenceOf(object);
  const [collection, key] = [collectionHolding(which), referenceKey(which)];
  const { status: _, ...content } = object;
  const { resourceVersion: _version, uid: _uid, ...metadata } = recordIn(object, 'metadata');
  const written = { ...content, metadata: { ...metadata, name: which.name } };
  for (let attempt = 1; ; attempt += 1) {
    const present = await findObject(api, which, signal);
    // Custom resources are replaced by the version that was read only.
    const version = present?.metadata.resourceVersion;
    const replaced = version === undefined ? {} : { resourceVersion: version };
    const answer =
      present === undefined
        ? await api.create({ collection, object: written }, signal)
        : await api.replace(
            { collection, object: { ...written, metadata: { ...written.metadata, ...replaced } } },
            signal,
          );
    if (answer.outcome === 'ok') return;
    // Controllers write their status in between.
    if (['conflict', 'exists', 'not-found'].includes(answer.outcome) && attempt < TRIES) continue;
    throw new NetplugError('upgrade/refused', `Cannot put back ${key}: ${answer.message}`, {
      hint: 'Correct what the API server names, and run the command again: it goes on from here',
      facts: { object: key },
    });
  }
}

/** Restores the records of helm that the upgrade has deleted, and deletes those that it has created. */
async function chartSteps(session: UpgradeSession, backup: Backup): Promise<readonly Step[]> {
  if (backup.charts.length === 0) return [];
  const { api, context } = session;
  const { secrets } = await readChartRecords(api, context.signal);
  const [before, now] = [backup.charts, secrets].map((each) => new Set(each.map(objectName)));
  const missing = backup.charts.filter((secret) => now?.has(objectName(secret)) === false);
  const further = secrets.filter((secret) => before?.has(objectName(secret)) === false);
  return [
    ...missing.map((secret): Step => ({
      text: `create ${objectName(secret)}`,
      act: async () => putBack(session, secret),
    })),
    ...further.map((secret): Step => ({
      text: `delete ${objectName(secret)}, which the upgrade has created`,
      act: async () => {
        await deleteObject(api, referenceOf(secret), context.signal);
      },
    })),
  ];
}

/** Restores the records that an upgrade changes: marked host endpoints, the temporary policy, and the version of the cluster. */
async function recordSteps(session: UpgradeSession, { records }: Backup): Promise<readonly Step[]> {
  const { store, context } = session;
  const { signal } = context;
  const steps: Step[] = [];
  // What others have changed since the steps were planned stays.
  const change = (text: string, which: ResourceId, edit: (now: AnyResource) => AnyResource): Step => ({
    text,
    act: async () =>
      void (await changeStored({ ...context.ports, store, signal, mode: 'apply' }, which, { change: edit })),
  });
  const { resources: endpoints } = await store.listResources('HostEndpoint', signal);
  for (const before of records.resources.filter(isHostEndpoint)) {
    const now = endpoints.find(({ metadata }) => metadata.name === before.metadata.name);
    const [was, is] = [before, now].map((each) => each?.metadata.labels?.[UPGRADE_NAMES.label]);
    if (was === is) continue;
    const { name } = before.metadata;
    const text = `restore label "${UPGRADE_NAMES.label}" of HostEndpoint "${name}"`;
    steps.push(change(text, { kind: 'HostEndpoint', name }, (each) => withLabel(each, UPGRADE_NAMES.label, was)));
  }
  const policy = { kind: 'GlobalNetworkPolicy', name: UPGRADE_NAMES.policy } as const;
  const had = records.resources.some((each) => each.kind === policy.kind && each.metadata.name === policy.name);
  if (!had && (await store.findResource(policy, signal)) !== undefined) {
    steps.push({
      text: `delete GlobalNetworkPolicy "${policy.name}"`,
      act: async () => store.deleteResource(policy, signal),
    });
  }
  const cluster = await store.findResource(CLUSTER_INFORMATION_ID, signal);
  const { netplugVersion } = records.cluster.spec;
  if (cluster !== undefined && cluster.spec.netplugVersion !== netplugVersion && netplugVersion !== undefined) {
    steps.push({
      text: `restore the cluster version ${netplugVersion}`,
      act: async () => {
        const plan = (now: ClusterInformation | undefined): ClusterInformation | undefined =>
          now && { ...now, spec: { ...now.spec, netplugVersion } };
        await changeClusterInformation({ ...context.ports, store }, plan, signal);
      },
    });
  }
  return steps;
}

function withLabel<R extends AnyResource>(resource: R, label: string, value: string | undefined): R {
  const { [label]: _, ...others } = resource.metadata.labels ?? {};
  const labels = value === undefined ? others : { ...others, [label]: value };
  return { ...resource, metadata: { ...resource.metadata, labels } };
}

function isHostEndpoint(resource: AnyResource): resource is HostEndpoint {
  return resource.kind === 'HostEndpoint';
}

function isWorkload({ kind }: Manifest): boolean {
  return kind === 'DaemonSet' || kind === 'Deployment';
}

function isOperator(object: Manifest): boolean {
  return object['kind'] === 'Deployment' && metadataIn(object).name === OPERATOR;
}

/** The operator first: the newer one would undo everything else. */
function rank(object: Manifest): number {
  const place = ORDER.indexOf(String(object['kind']));
  if (isOperator(object)) return ORDER.indexOf('APIServer') - 0.5;
  return metadataIn(object).name === AGENT_SET ? ORDER.length : place;
}

/** A hold on the agents that a stopped upgrade has left would keep those of the backup from coming back. */
function withoutHold(object: Manifest): Manifest {
  const { [HOLD_AGENTS]: hold, ...annotations } = metadataIn(object).annotations;
  return hold === undefined ? object : { ...object, metadata: { ...recordIn(object, 'metadata'), annotations } };
}

/** Returns what a rollback restores of an object: not what an upgrade has noted. */
function withoutNotes(object: Manifest): Manifest {
  const annotations = Object.entries(metadataIn(object).annotations);
  const others = annotations.filter(([key]) => !Object.values<string>(NOTES).includes(key));
  return { ...object, metadata: { ...recordIn(object, 'metadata'), annotations: Object.fromEntries(others) } };
}

function rollbackRefused(why: string, hint = 'Use the tool and a backup of that release'): NetplugError {
  return new NetplugError('upgrade/refused', `Cannot roll back: ${why}`, { hint });
}
