import { isNewerVersion } from '../../../../base/compare-versions.ts';
import { isNetplugError, NetplugError } from '../../../../base/errors.ts';
import { SIDECAR } from '../../../../model/declared-sidecar.ts';
import { type ApiObject, isLeaving } from '../../../../kube/objects.ts';
import { findObject, mergeInto } from '../../../../kube/objects/apply.ts';
import { type ObjectReference, referenceKey } from '../../../../kube/objects/reference.ts';
import { selectorText } from '../../../../kube/objects/selector-text.ts';
import { PODS, UNFINISHED_PODS } from '../../../../kube/paths.ts';
import { isStuck, podState } from '../../../../kube/status/pod-state.ts';
import { workloadState } from '../../../../kube/status/workload-state.ts';
import type { Act } from '../../../../plans/acts.ts';
import { RESTARTED_AT } from '../../../../upgrade/cluster/installed-spec.ts';
import { releaseIn } from '../../../../model/image-release.ts';
import { recordIn } from '../../../../upgrade/cluster/objects-in.ts';
import { kubectlTarget, leftToUser } from '../../../../upgrade/cluster/sidecars.ts';
import type { RestartAction } from '../../../../upgrade/cluster/upgrade-action.ts';
import { firstLine, type PodRun } from '../../cluster/node-pods.ts';
import { type WaitState, waitUntil } from '../../cluster/wait-until.ts';
import { sidecarImageIn, workloadFinder } from '../read-mesh.ts';

/** A roll-out without progress for so long has failed, unless its Deployment says otherwise: the default of Kubernetes. */
const PROGRESS_SECONDS = 600;
/** A pod may fail for so long before the roll-out counts as failed: programs that wait for each other do at their start. */
const STUCK_MS = 60_000;
const AGAIN = 'run the command again: it goes on from here';

export interface RestartPorts {
  readonly run: PodRun;
  readonly target: { readonly release: string };
  /** Receives a workload that is left as it is, because a roll-out that began before does not become ready. Without it, the act fails. */
  readonly onLeft?: (workload: ObjectReference, why: NetplugError) => void;
}

/** Restarts a workload whose pods have an older sidecar. The pods show whether that is done. */
export const RESTART: Act<RestartAction, RestartPorts> = {
  text: ({ workload, sidecar }) => `restart ${referenceKey(workload)}, whose sidecar has release ${sidecar}`,
  isDone: async ({ workload }, { run, target }) => {
    const object = await findObject(run.api, workload, run.signal);
    if (object === undefined) return true;
    const pods = await podReader(run, workload)(object);
    return lagOf(object) === undefined && !pods.some((pod) => hasOlder(pod, target.release));
  },
  apply: async ({ workload, sidecar }, { run, target: { release }, onLeft }) => {
    // A call that was interrupted, or a user, may have begun one.
    const before = await waitForRollOut(run, { workload, judge: () => undefined }).catch((cause: unknown) => {
      // One that was broken before must not keep the others from their sidecar.
      if (onLeft === undefined || run.signal.aborted || !isNetplugError(cause, 'upgrade/not-verified')) throw cause;
      onLeft(workload, cause);
      return undefined;
    });
    if (before === undefined) return;
    if (!before.pods.some((pod) => hasOlder(pod, release))) {
      // A roll-out that others began may have lost the sidecar.
      judgePods(workload, before.pods, (pod) => whyNotUpgraded(pod, release));
      return;
    }
    const left = leftToUser({ ...workload, version: sidecar }, release, before.object);
    if (left !== undefined) throw stopped(`${referenceKey(workload)}: ${left.why}`, `Use "${left.command.join(' ')}"`);
    const annotations = { [RESTARTED_AT]: new Date(run.clock.now()).toISOString() };
    await mergeInto(
      run.api,
      { which: workload, body: { spec: { template: { metadata: { annotations } } } } },
      run.signal,
    );
    const known = new Set(before.pods.map(({ metadata }) => metadata.uid));
    const judge = (pod: ApiObject): Unfit | undefined =>
      known.has(pod.metadata.uid) ? undefined : whyNotUpgraded(pod, release);
    await waitForRollOut(run, { workload, judge });
  },
};

interface RolledOut {
  readonly object: ApiObject;
  readonly pods: readonly ApiObject[];
}

/** Why a new pod is not as it should be. */
interface Unfit {
  readonly why: string;
  readonly has: 'no-sidecar' | 'another-sidecar';
}

type Judge = (pod: ApiObject) => Unfit | undefined;

interface AwaitedRollOut {
  readonly workload: ObjectReference;
  /** Returns why a pod ends the wait; undefined for one that does not. */
  readonly judge: Judge;
}

/**
 * Waits until a workload is rolled out and each of its pods is ready. Returns undefined for a workload that does not exist.
 * @throws upgrade/not-verified
 */
async function waitForRollOut(run: PodRun, { workload, judge }: AwaitedRollOut): Promise<RolledOut | undefined> {
  const { api, clock, signal } = run;
  const key = referenceKey(workload);
  const podsOf = podReader(run, workload);
  let progress = { lag: '', sinceMs: clock.monotonic() };
  /** Since when each pod that is stuck has been. */
  let stuckMs = new Map<string, number>();
  const look = async (): Promise<WaitState<RolledOut | undefined>> => {
    const object = await findObject(api, workload, signal);
    if (object === undefined) return { found: undefined };
    const lag = lagOf(object) ?? '';
    const pods = await podsOf(object);
    judgePods(workload, pods, judge);
    const states = pods.map(podState);
    const nowMs = clock.monotonic();
    stuckMs = new Map(
      pods
        .filter((_, at) => states[at] !== undefined && isStuck(states[at]))
        .map(({ metadata: { uid = '' } }) => [uid, stuckMs.get(uid) ?? nowMs]),
    );
    const unready = states.find(({ phase }) => phase !== 'ready');
    if (lag === '' && unready === undefined) return { found: { object, pods } };
    if (lag !== progress.lag) progress = { lag, sinceMs: nowMs };
    const pod = states.find(isStuck) ?? unready;
    const open = [
      `${key}: ${lag === '' ? 'not all pods are ready' : lag}`,
      ...(pod === undefined ? [] : [`pod ${pod.name}: ${firstLine(pod.reason ?? '')}`]),
    ].join('; ');
    const isOver =
      [...stuckMs.values()].some((since) => nowMs - since > STUCK_MS) ||
      nowMs - progress.sinceMs > progressSeconds(object) * 1000;
    if (isOver) throw notRolledOut(open);
    return { open };
  };
  return waitUntil(run, look, (open, why) => notRolledOut(`${open} (${why})`));
}

function lagOf(object: ApiObject): string | undefined {
  const state = workloadState(object, 'following');
  return state === undefined ? 'it has no status' : state.lag;
}

function progressSeconds(object: ApiObject): number {
  const { progressDeadlineSeconds: given, minReadySeconds } = recordIn(object, 'spec');
  const seconds = typeof given === 'number' ? given : PROGRESS_SECONDS;
  return seconds + (typeof minReadySeconds === 'number' ? minReadySeconds : 0);
}

/** Returns a function that reads the pods of a workload: labels alone may be those of others as well. */
function podReader({ api, signal }: PodRun, workload: ObjectReference) {
  const workloadOf = workloadFinder(api, signal);
  return async (object: ApiObject): Promise<readonly ApiObject[]> => {
    const labelSelector = selectorText(recordIn(object, 'spec')['selector']);
    const options = { ...UNFINISHED_PODS, ...(labelSelector === undefined ? {} : { labelSelector }) };
    const pods = await api.list({ ...PODS, namespace: workload.namespace }, options, signal);
    const own: ApiObject[] = [];
    for (const pod of pods) {
      if (isLeaving(pod)) continue;
      if (referenceKey(await workloadOf(pod)) === referenceKey(workload)) own.push(pod);
    }
    return own;
  };
}

function hasOlder(pod: ApiObject, release: string): boolean {
  const found = releaseIn(sidecarImageIn(pod) ?? '');
  return found !== undefined && isNewerVersion(release, found);
}

/** @throws upgrade/not-verified */
function judgePods(workload: ObjectReference, pods: readonly ApiObject[], judge: Judge): void {
  for (const pod of pods) {
    const unfit = judge(pod);
    if (unfit === undefined) continue;
    const what = `${referenceKey(workload)}: its new pod ${pod.metadata.name} ${unfit.why}`;
    throw stopped(what, unfit.has === 'no-sidecar' ? lostHint(workload) : LATE);
  }
}

function whyNotUpgraded(pod: ApiObject, release: string): Unfit | undefined {
  const image = sidecarImageIn(pod);
  if (image === undefined) return { has: 'no-sidecar', why: `has no ${SIDECAR}` };
  const found = releaseIn(image);
  const has = 'another-sidecar';
  if (found === undefined)
    return { has, why: `has a ${SIDECAR} whose image, ${JSON.stringify(image)}, names no release` };
  return isNewerVersion(release, found) ? { has, why: `has ${SIDECAR} ${found} still` } : undefined;
}

const LATE = `The injector may read a changed template only after a minute or two: wait, and ${AGAIN}. Otherwise see "netplugctl mesh check"`;

/** The roll-out goes on without the tool, and takes the sidecar from one pod after the other. */
function lostHint(workload: ObjectReference): string {
  const which = kubectlTarget(workload).join(' ');
  const [pause, resume] =
    workload.kind === 'Deployment'
      ? [`kubectl rollout pause ${which}`, `"kubectl rollout resume ${which}" and "kubectl rollout restart ${which}"`]
      : [
          `kubectl patch ${which} -p '${ON_DELETE}'`,
          `its updateStrategy as before and "kubectl rollout restart ${which}"`,
        ];
  return `In its new pods, rules with http allow nothing. Pause the roll-out: ${pause}. Mend the injection: see "netplugctl mesh check", and the annotation inject.istio.io/templates of the workload. Then ${resume}`;
}

/** Only a Deployment can be paused. */
const ON_DELETE = JSON.stringify({ spec: { updateStrategy: { type: 'OnDelete', rollingUpdate: null } } });

function notRolledOut(open: string): NetplugError {
  return stopped(open, `See "kubectl get pods" and "kubectl describe"; correct the cause, and ${AGAIN}`);
}

function stopped(what: string, hint: string): NetplugError {
  return new NetplugError('upgrade/not-verified', `Stopped at ${what}`, { hint });
}
