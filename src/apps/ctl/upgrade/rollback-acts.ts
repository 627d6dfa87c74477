import { NetplugError } from '../../../base/errors.ts';
import { changeClusterInformation } from '../../../datastore/keep-cluster-information.ts';
import { ROLLING } from '../../../install/cluster/agent-daemon-set.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { diffObjects } from '../../../kube/objects/diff.ts';
import { collectionHolding, type ObjectReference, referenceKey, referenceOf } from '../../../kube/objects/reference.ts';
import type { PodState } from '../../../kube/status/pod-state.ts';
import type { ClusterInformation } from '../../../model/cluster-information.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import type { Acts } from '../../../plans/acts.ts';
import { followingPods } from '../../../upgrade/cluster/detect-installation.ts';
import { NOTES } from '../../../upgrade/cluster/held-agents.ts';
import { releaseIn } from '../../../model/image-release.ts';
import { metadataIn, recordIn } from '../../../upgrade/cluster/objects-in.ts';
import { REMOVAL } from '../cluster/end-servers.ts';
import type { PodRun } from '../cluster/node-pods.ts';
import { waitFor, waitForWorkload, workloadLag } from '../cluster/wait-ready.ts';
import { changeStored } from '../resources/write-resource.ts';
import type { UpgradeSession } from './open-upgrade.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { readPods } from './read-nodes.ts';
import { UPGRADE_NAMES } from './read-records.ts';
import { mainImage } from './roll-out.ts';

/** Writes by others that are tolerated while one object is put back. */
const TRIES = 5;

/** Data of a step of a rollback. Objects to put back are those of the backup, so that no secret is part of a plan. */
export type RollbackAct =
  | { readonly act: 'put-back'; readonly object: ObjectReference }
  | { readonly act: 'await-release'; readonly object: ObjectReference }
  | { readonly act: 'replace-agents'; readonly object: ObjectReference }
  | { readonly act: 'delete'; readonly objects: readonly ObjectReference[]; readonly why: string }
  | { readonly act: 'restore-label'; readonly endpoint: string; readonly value?: string }
  | { readonly act: 'delete-policy'; readonly policy: string }
  | { readonly act: 'restore-version'; readonly version: string };

export interface RollbackPorts {
  readonly session: UpgradeSession;
  readonly run: PodRun;
  /** Objects of the backup by key. */
  readonly objects: ReadonlyMap<string, Manifest>;
}

const { label } = UPGRADE_NAMES;

/** The acts of a rollback. Each can be repeated; the plan has those that the cluster does not show as done. */
export const ROLLBACK_ACTS: Acts<RollbackAct, RollbackPorts> = {
  'put-back': {
    text: ({ object }) => `put back ${referenceKey(object)}`,
    apply: async ({ object }, ports) => putBack(ports.run, backedUp(object, ports)),
  },
  'await-release': {
    text: ({ object: { name } }) => `wait until ${name} runs everywhere`,
    apply: async ({ object }, ports) => waitForRelease(ports.run, backedUp(object, ports)),
  },
  // Agents that are replaced only by hand would stay those of the newer release.
  'replace-agents': {
    text: ({ object }) => `put back ${referenceKey(object)}, wait until it runs everywhere, and put back its strategy`,
    apply: async ({ object }, ports) => {
      const agents = backedUp(object, ports);
      await putBack(ports.run, { ...agents, spec: { ...recordIn(agents, 'spec'), updateStrategy: ROLLING } });
      await waitForRelease(ports.run, agents);
      await putBack(ports.run, agents);
    },
  },
  delete: REMOVAL,
  'restore-label': {
    text: ({ endpoint }) => `restore label "${label}" of HostEndpoint "${endpoint}"`,
    // What others have changed since the steps were planned stays.
    apply: async ({ endpoint, value }, { session: { store, context } }) => {
      const writing = { ...context.ports, store, signal: context.signal, mode: 'apply' } as const;
      const change = (now: AnyResource): AnyResource => withLabel(now, value);
      await changeStored(writing, { kind: 'HostEndpoint', name: endpoint }, { change });
    },
  },
  'delete-policy': {
    text: ({ policy }) => `delete GlobalNetworkPolicy "${policy}"`,
    apply: async ({ policy }, { session: { store, context } }) =>
      store.deleteResource({ kind: 'GlobalNetworkPolicy', name: policy }, context.signal),
  },
  'restore-version': {
    text: ({ version }) => `restore the cluster version ${version}`,
    apply: async ({ version }, { session: { store, context } }) => {
      const plan = (now: ClusterInformation | undefined): ClusterInformation | undefined =>
        now && { ...now, spec: { ...now.spec, netplugVersion: version } };
      await changeClusterInformation({ ...context.ports, store }, plan, context.signal);
    },
  },
};

function backedUp(object: ObjectReference, { objects }: RollbackPorts): Manifest {
  const found = objects.get(referenceKey(object));
  if (found === undefined) throw new Error(`the backup has no ${referenceKey(object)}`);
  return found;
}

/** Returns what is left until the workload and its pods have the release of the backup; undefined when nothing is. */
export function releaseLag(
  present: Manifest | undefined,
  object: Manifest,
  pods: readonly PodState[],
): string | undefined {
  if (present === undefined) return 'missing';
  return workloadLag(present) ?? otherPods(object, pods);
}

/** Waits until the workload runs everywhere, and no pod of another release is left. @throws install/not-ready */
async function waitForRelease(run: PodRun, object: Manifest): Promise<void> {
  const { name } = metadataIn(object);
  const kind = object['kind'] === 'DaemonSet' ? 'DaemonSet' : 'Deployment';
  const down = (await readNodes(run.api, run.signal)).filter(({ isReady }) => !isReady).map((node) => node.name);
  if (kind === 'DaemonSet' && down.length > 0)
    run.onProgress(`not ready: ${down.join(', ')}; repair or delete these nodes, or the others do not all follow`);
  // Those of the release that is left say why, and would end the wait. An image may not tell its release.
  await waitForWorkload(run, { kind, name, release: releaseIn(mainImage(object)) ?? '' });
  await waitFor(run, name, async () => otherPods(object, await readPods(run.api, run.signal)));
}

/** An image may not tell its release. */
function otherPods(object: Manifest, pods: readonly PodState[]): string | undefined {
  const [{ name }, release] = [metadataIn(object), releaseIn(mainImage(object))];
  const isOther = ({ component, images: [own = ''] }: PodState): boolean =>
    component === name && releaseIn(own) !== release;
  return release !== undefined && followingPods(pods).some(isOther) ? 'pods of another release are left' : undefined;
}

/** Reports whether an object has everything that a rollback restores of it: not what an upgrade has noted. */
export function isAsBackedUp(found: Manifest | undefined, object: Manifest): boolean {
  return found !== undefined && diffObjects(withoutNotes(found), withoutNotes(object)).length === 0;
}

function withoutNotes(object: Manifest): Manifest {
  const annotations = Object.entries(metadataIn(object).annotations);
  const others = annotations.filter(([key]) => !Object.values<string>(NOTES).includes(key));
  return { ...object, metadata: { ...recordIn(object, 'metadata'), annotations: Object.fromEntries(others) } };
}

/** Replaces the object by that of the backup, with the managers of its fields; creates it when it is gone. @throws upgrade/refused */
async function putBack({ api, signal }: PodRun, object: Manifest): Promise<void> {
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

function withLabel<R extends AnyResource>(resource: R, value: string | undefined): R {
  const { [label]: _, ...others } = resource.metadata.labels ?? {};
  const labels = value === undefined ? others : { ...others, [label]: value };
  return { ...resource, metadata: { ...resource.metadata, labels } };
}
