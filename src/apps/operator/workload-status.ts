import * as v from 'valibot';
import type { ApiObject } from '../../kube/objects.ts';
import { hasFollowingPods } from '../../install/cluster/names.ts';
import type { InstallationComponent } from '../../model/installation-status.ts';

const count = v.nullish(v.number(), 0);
const workload = v.looseObject({
  metadata: v.looseObject({ generation: count }),
  spec: v.looseObject({ replicas: v.nullish(v.number(), 1) }),
  status: v.nullish(
    v.looseObject({
      observedGeneration: count,
      desiredNumberScheduled: count,
      updatedNumberScheduled: count,
      numberAvailable: count,
      updatedReplicas: count,
      availableReplicas: count,
    }),
    {},
  ),
});

const terminated = v.nullish(v.looseObject({ exitCode: count, message: v.nullish(v.string(), '') }));
const container = v.looseObject({
  name: v.nullish(v.string(), ''),
  ready: v.nullish(v.boolean(), false),
  state: v.nullish(
    v.looseObject({
      waiting: v.nullish(v.looseObject({ reason: v.nullish(v.string(), ''), message: v.nullish(v.string(), '') })),
      running: v.nullish(v.looseObject({})),
      terminated,
    }),
    {},
  ),
  lastState: v.nullish(v.looseObject({ terminated }), {}),
});
const pod = v.looseObject({
  metadata: v.looseObject({
    name: v.string(),
    labels: v.nullish(v.record(v.string(), v.string()), {}),
    creationTimestamp: v.nullish(v.string(), ''),
    deletionTimestamp: v.nullish(v.string()),
  }),
  spec: v.nullish(v.looseObject({ nodeName: v.nullish(v.string(), '') }), {}),
  status: v.nullish(
    v.looseObject({
      conditions: v.nullish(
        v.array(v.looseObject({ type: v.string(), status: v.string(), message: v.nullish(v.string(), '') })),
        [],
      ),
      initContainerStatuses: v.nullish(v.array(container), []),
      containerStatuses: v.nullish(v.array(container), []),
    }),
    {},
  ),
});
type Pod = v.InferOutput<typeof pod>;
type Container = v.InferOutput<typeof container>;

/** A workload, and whether it serves. */
export interface WorkloadStatus {
  readonly component: InstallationComponent;
  /** Whether its pods do their work, maybe from the template before; undefined when that cannot be read. */
  readonly isServing: boolean | undefined;
  /** Whether the next stage may begin. */
  readonly isInUse: boolean;
}

/** Reasons of the kubelet that do not end without a change by the user. */
const FAILING = [
  'CrashLoopBackOff',
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
];
/** The startup probe gives a new agent two minutes. */
const STALLED_MS = 5 * 60_000;
const SHOWN = 3;
const LONGEST_WORDS = 400;

/** Returns the state of a DaemonSet or Deployment from what the API has of it and of its pods. Pure. */
export function workloadStatus(
  name: string,
  { object, pods, now }: { readonly object: ApiObject; readonly pods: readonly ApiObject[]; readonly now: number },
): WorkloadStatus {
  const read = v.safeParse(workload, object);
  if (!read.success) return unreadableWorkload(name, 'the API server returns no state of it');
  const { metadata, spec, status } = read.output;
  const isDaemonSet = object['kind'] === 'DaemonSet';
  const desired = isDaemonSet ? (status.desiredNumberScheduled ?? 0) : spec.replicas;
  const updated = (isDaemonSet ? status.updatedNumberScheduled : status.updatedReplicas) ?? 0;
  const available = (isDaemonSet ? status.numberAvailable : status.availableReplicas) ?? 0;
  const counts = { desired, updated, available };
  const isObserved = (status.observedGeneration ?? 0) >= metadata.generation;
  const isUpdated = updated >= desired || !hasFollowingPods(name);
  const isRolledOut = isObserved && isUpdated && available >= desired;
  const waits = isRolledOut ? [] : waitingPods(name, pods, now);
  const isFailing = waits.some((wait) => wait.isFailing);
  const state = isRolledOut ? 'Ready' : isFailing ? 'Failing' : 'Progressing';
  const progress = isObserved
    ? `${String(updated)} of ${String(desired)} updated, ${String(available)} available`
    : 'kube-controller-manager has not observed the last change yet';
  const message = isRolledOut ? {} : { message: [progress, ...describe(waits)].join('; ') };
  const least = isDaemonSet ? desired : Math.min(1, desired);
  return {
    component: { name, state, ...message, ...counts },
    isServing: (status.observedGeneration ?? 0) > 0 && available >= least,
    isInUse: isDaemonSet ? isRolledOut : isObserved && updated >= least && available >= least,
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
    .flatMap((object) => {
      const read = v.safeParse(pod, object);
      return read.success ? [read.output] : [];
    })
    .filter(({ metadata }) => metadata.labels['app.kubernetes.io/name'] === name)
    .filter((each) => !isReady(each) && (each.metadata.deletionTimestamp ?? '') === '')
    .map((each) => waitOf(each, now))
    .sort((a, b) => (a.isFailing === b.isFailing ? (a.text < b.text ? -1 : 1) : a.isFailing ? -1 : 1));
}

function isReady({ status }: Pod): boolean {
  return (status.conditions ?? []).some(({ type, status: is }) => type === 'Ready' && is === 'True');
}

function waitOf({ metadata, spec, status }: Pod, now: number): WaitingPod {
  const node = spec.nodeName ?? '';
  const where = node === '' ? `pod "${metadata.name}"` : `node "${node}"`;
  const containers = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  const waiting = containers.find(
    ({ state }) => state.waiting?.reason !== undefined && state.waiting.reason !== 'PodInitializing',
  );
  const reason = waiting?.state.waiting;
  const since = Date.parse(metadata.creationTimestamp);
  const isStalled = now - since > STALLED_MS;
  if (reason !== undefined && reason !== null) {
    const said = waiting === undefined ? '' : lastWords(waiting);
    const why = said === '' ? (reason.message ?? '') : said;
    const text = `${where}: container ${waiting?.name ?? ''} waits: ${reason.reason}${why === '' ? '' : ` (${why})`}`;
    return { text, isFailing: FAILING.includes(reason.reason) || isStalled };
  }
  const unscheduled = (status.conditions ?? []).find(
    ({ type, status: is }) => type === 'PodScheduled' && is === 'False',
  );
  if (unscheduled !== undefined)
    return { text: `${where} is not scheduled: ${unscheduled.message}`, isFailing: isStalled };
  const ended = containers.find(({ state }) => (state.terminated?.exitCode ?? 0) !== 0);
  if (ended !== undefined) {
    return { text: `${where}: container ${ended.name ?? ''} has failed (${lastWords(ended)})`, isFailing: isStalled };
  }
  const unready = containers.find(({ ready, state }) => !ready && (state.running ?? undefined) !== undefined);
  const what = unready === undefined ? 'has not started' : `container ${unready.name} is not ready`;
  return { text: `${where}: ${what}${isStalled ? ' for more than 5 minutes' : ''}`, isFailing: isStalled };
}

/** Returns what a failed program has said at last, in one line: its last line with those indented below. */
function lastWords({ state, lastState }: Container): string {
  const { message } = state.terminated ?? lastState.terminated ?? {};
  const [, last = ''] = /(?:^|\n)(\S[^\n]*(?:\n[ \t][^\n]*)*)$/.exec((message ?? '').trimEnd()) ?? [];
  const line = last.replaceAll(/\n\s+/g, '; ');
  return line.length > LONGEST_WORDS ? `${line.slice(0, LONGEST_WORDS - 1)}…` : line;
}

function describe(waits: readonly WaitingPod[]): readonly string[] {
  const more = waits.length - SHOWN;
  return [...waits.slice(0, SHOWN).map(({ text }) => text), ...(more > 0 ? [`${String(more)} more`] : [])];
}
