import { NetplugError } from '../../../base/errors.ts';
import { CLEANUP_SET, SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { applyObject, deleteObject, findObject, tryMerge } from '../../../kube/objects/apply.ts';
import { type ObjectReference, referenceKey, referenceOf } from '../../../kube/objects/reference.ts';
import { API_VERSION } from '../../../model/resource.ts';
import { finalizersOf } from '../../../kube/objects.ts';
import { OPERATOR_FINALIZER } from '../../../model/installation.ts';
import { podsNamed, type PodRun, SYSTEM_PODS } from './node-pods.ts';
import { waitForWorkload } from './wait-ready.ts';
import { type WaitState, waitUntil } from './wait-until.ts';

const POLLS_BEFORE_RETRY = 5;
const RETRY_NOTE = 'netplug.io/removal-retry';

/**
 * Deletes the Installation with the finalizer of the operator, which would act on the deletion, and is removed already.
 * Finalizers of other programs stay.
 */
export async function releaseInstallation({ api, signal }: PodRun, which: ObjectReference): Promise<void> {
  await deleteObject(api, which, signal);
  for (;;) {
    const left = await findObject(api, which, signal);
    if (left === undefined) return;
    const finalizers = finalizersOf(left).filter((each) => each !== OPERATOR_FINALIZER);
    if (finalizers.length === finalizersOf(left).length) return;
    const { resourceVersion } = left.metadata;
    const answer = await tryMerge(api, { which, body: { metadata: { resourceVersion, finalizers } } }, signal);
    if (answer.outcome !== 'conflict') return;
  }
}

/** Waits until none of the objects exists. @throws install/not-ready */
export async function waitUntilGone(run: PodRun, objects: readonly ObjectReference[]): Promise<void> {
  const { api, signal } = run;
  for (const which of objects) {
    let polls = 0;
    const look = async (): Promise<WaitState<undefined>> => {
      if ((await findObject(api, which, signal)) === undefined) return { found: undefined };
      if (polls > 0 && polls % POLLS_BEFORE_RETRY === 0) {
        await refuseKept(run, which);
        // A change makes the API server try again at once. It waits ever longer between its own attempts, which fail while it
        // still opens the storage of a definition that is young.
        const body = { metadata: { annotations: { [RETRY_NOTE]: String(polls) } } };
        await tryMerge(api, { which, body }, signal);
      }
      polls += 1;
      return { open: `waiting for the end of ${referenceKey(which)}` };
    };
    await waitUntil(run, look, notRemoved);
  }
}

/** A definition goes with the last of its objects, and each of these when the programs with a finalizer of it agree. @throws install/not-ready */
async function refuseKept({ api, signal }: PodRun, which: ObjectReference): Promise<void> {
  if (which.kind !== 'CustomResourceDefinition') return;
  const [plural = '', ...group] = which.name.split('.');
  const [, version = ''] = API_VERSION.split('/');
  const left = await api.list({ group: group.join('.'), version, plural }, {}, signal).catch(() => []);
  const kept = left.filter((object) => finalizersOf(object).length > 0);
  if (left.length === 0 || kept.length < left.length) return;
  const objects = kept.map((object) => `${object.metadata.name} (${finalizersOf(object).join(', ')})`);
  throw new NetplugError(
    'install/not-ready',
    `Cannot remove ${which.name}: finalizers of other programs keep ${objects.join(', ')}`,
    {
      hint: 'Let these programs remove their finalizers, and run the command again; everything else of netplug is removed',
    },
  );
}

function notRemoved(open: string, why: string): NetplugError {
  return new NetplugError('install/not-ready', `${why} while removing the installation: ${open}`, {
    hint: 'Run the command again, with a longer --timeout, or find out what keeps it',
  });
}

/** Waits until no pod of netplug has one of the names as label. @throws install/not-ready */
export async function waitUntilNoPods(run: PodRun, names: readonly string[]): Promise<void> {
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

/** Applies the objects that run the removal of a node on every node at once, and deletes their DaemonSet afterwards. @throws install/not-ready */
export async function cleanNodes(run: PodRun, cleanup: readonly Manifest[]): Promise<void> {
  const { api, signal } = run;
  for (const object of cleanup) await applyObject(api, { object }, signal);
  try {
    await waitForWorkload(run, { kind: 'DaemonSet', name: CLEANUP_SET });
  } catch (cause) {
    if (!signal.aborted) throw cause;
    throw new NetplugError('install/not-ready', 'Timed out while cleaning the nodes', {
      hint: `Look at "kubectl -n ${SYSTEM_NAMESPACE} logs ds/${CLEANUP_SET} -c clean", and run the command again`,
      cause,
    });
  }
  const sets = cleanup.filter(({ kind }) => kind === 'DaemonSet');
  for (const object of sets) await deleteObject(api, referenceOf(object), signal);
  await waitUntilNoPods({ ...run, onProgress: () => undefined }, [CLEANUP_SET]);
}
