import { type ApiObject, isLeaving } from '../../kube/objects.ts';
import { isStuck, podState } from '../../kube/status/pod-state.ts';
import { workloadState } from '../../kube/status/workload-state.ts';
import { hasFollowingPods } from '../../install/cluster/names.ts';
import { TYPHA } from '../../model/typha.ts';
import type { InstallationComponent } from '../../model/installation-status.ts';

/** A workload, and whether it serves. */
export interface WorkloadStatus {
  readonly component: InstallationComponent;
  /** Whether its pods do their work, maybe from the template before; undefined when that cannot be read. */
  readonly isServing: boolean | undefined;
  /** Whether the next stage may begin. */
  readonly isInUse: boolean;
}

/** The startup probe gives a new agent two minutes. */
const STALLED_MS = 5 * 60_000;
const SHOWN = 3;

/** Returns the state of a DaemonSet or Deployment from what the API has of it and of its pods. Pure. */
export function workloadStatus(
  name: string,
  { object, pods, now }: { readonly object: ApiObject; readonly pods: readonly ApiObject[]; readonly now: number },
): WorkloadStatus {
  const workload = workloadState(object, hasFollowingPods(name) ? 'following' : 'kept');
  if (workload === undefined) return unreadableWorkload(name, 'the API server returns no state of it');
  const { desired, updated, available, isObserved, lag } = workload;
  const waits = lag === undefined ? [] : waitingPods(name, pods, now);
  const state = lag === undefined ? 'Ready' : waits.some(({ isFailing }) => isFailing) ? 'Failing' : 'Progressing';
  const message = lag === undefined ? {} : { message: [lag, ...describe(waits)].join('; ') };
  const isDaemonSet = object['kind'] === 'DaemonSet';
  // The other node of a Deployment may be down. Agents follow the servers of the fan-out once all of these are new.
  const least = isDaemonSet ? Math.max(1, desired) : Math.min(1, desired);
  return {
    component: { name, state, ...message, desired, updated, available },
    isServing: available >= least,
    isInUse: isDaemonSet || name === TYPHA ? lag === undefined : isObserved && updated >= least && available >= least,
  };
}

/** Returns the status of a workload that cannot be read. */
export function unreadableWorkload(name: string, message: string): WorkloadStatus {
  return { component: { name, state: 'Unknown', message }, isServing: undefined, isInUse: false };
}

export function absentWorkload(name: string, message: string): WorkloadStatus {
  return { component: { name, state: 'Progressing', message }, isServing: false, isInUse: false };
}

interface WaitingPod {
  readonly text: string;
  readonly isFailing: boolean;
}

/** Returns the pods that are not ready, those that fail first. */
function waitingPods(name: string, pods: readonly ApiObject[], now: number): readonly WaitingPod[] {
  return pods
    .filter((pod) => pod.metadata.labels?.['app.kubernetes.io/name'] === name && !isLeaving(pod))
    .flatMap((pod): WaitingPod[] => {
      const state = podState(pod);
      if (state.reason === undefined) return [];
      const where = state.node === '' ? `pod "${state.name}"` : `node "${state.node}"`;
      const isStalled = now - Date.parse(pod.metadata.creationTimestamp ?? '') > STALLED_MS;
      const since = isStalled ? ' for more than 5 minutes' : '';
      return [{ text: `${where}: ${state.reason}${since}`, isFailing: isStuck(state) || isStalled }];
    })
    .sort((a, b) => (a.isFailing === b.isFailing ? (a.text < b.text ? -1 : 1) : a.isFailing ? -1 : 1));
}

function describe(waits: readonly WaitingPod[]): readonly string[] {
  const more = waits.length - SHOWN;
  return [...waits.slice(0, SHOWN).map(({ text }) => text), ...(more > 0 ? [`${String(more)} more`] : [])];
}
