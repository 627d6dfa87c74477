import { SYSTEM_NAMESPACE, systemObject } from '../../../install/cluster/names.ts';
import type { Manifest } from '../../../model/manifest.ts';
import * as v from 'valibot';
import { NetplugError } from '../../../base/errors.ts';
import type { Clock } from '../../../base/clock.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { PODS } from '../../../kube/paths.ts';
import type { Context } from '../ports.ts';
import { applyObject, deleteObject, findObject } from '../../../kube/objects/apply.ts';
import { type ObjectReference, referenceOf } from '../../../kube/objects/reference.ts';
import { isWithoutImage, podState, type PodState } from '../../../kube/status/pod-state.ts';
import { type WaitState, type WaitPorts, waitUntil } from './wait-until.ts';

const POLL_MS = 1000;
/** Time for the kubelet to end a pod. One that does not answer would keep the pod for ever. */
const END_MS = 30_000;
/** Time for a pull to be retried before it counts as failed. */
const PULL_MS = 30_000;
const EVENTS = { group: '', version: 'v1', plural: 'events' } as const;
export const SYSTEM_PODS = { ...PODS, namespace: SYSTEM_NAMESPACE };

export interface PodRun extends WaitPorts {
  readonly api: OrchApi;
}

/** Returns what it takes to wait for pods: progress goes to standard error, behind the indent. */
export function podRun(api: OrchApi, { ports, signal, io }: Context, indent = '  '): PodRun {
  return {
    api,
    clock: ports.clock,
    signal,
    onProgress: (text) => {
      io.stderr(`${indent}${text}\n`);
    },
  };
}

/** Creates the pods in place of earlier ones, and returns their states when each has reached one of the phases or has failed. */
export async function runPods(
  run: PodRun,
  {
    pods,
    until,
    what,
  }: { readonly pods: readonly Manifest[]; readonly until: 'ready' | 'succeeded'; readonly what: string },
): Promise<readonly PodState[]> {
  const { api, clock, signal, onProgress } = run;
  const references = pods.map(referenceOf);
  await removePods(run, references);
  for (const object of pods) await applyObject(api, { object }, signal);
  const refuseWithoutImage = imageWatch(clock);
  let waitsFor = '';
  const look = async (): Promise<WaitState<readonly PodState[]>> => {
    const states = await Promise.all(
      references.map(async (pod) => withEvent(api, await readState(api, pod, signal), signal)),
    );
    const isOver = ({ phase }: PodState): boolean => [until, 'failed', 'succeeded'].includes(phase);
    const done = states.filter(isOver).length;
    const open = states.find((state) => !isOver(state));
    const line = `${what}: ${String(done)} of ${String(states.length)} nodes${open?.reason === undefined ? '' : `; ${open.node}: ${firstLine(open.reason)}`}`;
    if (open === undefined) {
      onProgress(line);
      return { found: states };
    }
    refuseWithoutImage(states);
    waitsFor = open.name;
    return { open: line };
  };
  return waitUntil(
    run,
    look,
    (open, why) =>
      new NetplugError('install/not-ready', `${why} while waiting for the pods of "${what}": ${open}`, {
        hint: `Look at the pod: kubectl -n ${SYSTEM_NAMESPACE} describe pod ${waitsFor}`,
        facts: { pod: waitsFor },
      }),
  );
}

/** Deletes the pods and waits until they are gone. Nothing keeps those of a node that does not answer. */
export async function removePods(
  { api, clock, signal }: Omit<PodRun, 'onProgress'>,
  pods: readonly ObjectReference[],
): Promise<void> {
  await Promise.all(pods.map(async (pod) => deleteObject(api, pod, signal)));
  const endMs = clock.monotonic() + END_MS;
  let left = pods;
  for (;;) {
    const found = await Promise.all(left.map(async (pod) => findObject(api, pod, signal)));
    left = left.filter((_, at) => found[at] !== undefined);
    if (left.length === 0) return;
    if (clock.monotonic() > endMs)
      for (const { name } of left)
        await api.delete({ collection: SYSTEM_PODS, name, preconditions: {}, graceSeconds: 0 }, signal);
    await clock.sleep(POLL_MS, signal);
  }
}

/** Selects the pods of netplug with one of the names as label. */
export function podsNamed(names: readonly string[]): { readonly labelSelector: string } {
  return { labelSelector: `app.kubernetes.io/name in (${names.join(',')})` };
}

/** Deletes all pods of netplug with one of the names as label, also those of other programs, and waits until they are gone. */
export async function removePodsNamed(run: Omit<PodRun, 'onProgress'>, names: readonly string[]): Promise<void> {
  const pods = await run.api.list(SYSTEM_PODS, { ...podsNamed(names), only: 'names' }, run.signal);
  await removePods(
    run,
    pods.map(({ metadata: { name } }) => systemObject('Pod', name)),
  );
}

async function readState(api: OrchApi, pod: ObjectReference, signal: AbortSignal): Promise<PodState> {
  const found = await findObject(api, pod, signal);
  if (found !== undefined) return podState(found);
  return { ...podState({ metadata: { name: pod.name } }), phase: 'failed', reason: 'the pod was deleted' };
}

const Event = v.looseObject({ reason: v.optional(v.string()), message: v.optional(v.string()) });

/** A pod whose network cannot be set up says why in its events alone. */
async function withEvent(api: OrchApi, state: PodState, signal: AbortSignal): Promise<PodState> {
  if (state.phase !== 'pending') return state;
  const fieldSelector = `involvedObject.name=${state.name},reason=FailedCreatePodSandBox`;
  const events = await api.list({ ...EVENTS, namespace: SYSTEM_NAMESPACE }, { fieldSelector }, signal);
  const read = v.safeParse(Event, events.at(-1));
  const message = read.success ? read.output.message : undefined;
  return message === undefined ? state : { ...state, reason: message };
}

/** Returns a function that looks at pods again and again. @throws install/refused once one has been without its image for too long */
export function imageWatch(clock: Clock): (states: readonly PodState[]) => void {
  let pullableMs = clock.monotonic();
  return (states) => {
    const without = states.find(isWithoutImage);
    if (without === undefined) pullableMs = clock.monotonic();
    else if (clock.monotonic() - pullableMs > PULL_MS) throw noImage(without);
  };
}

function noImage({ name, node, reason }: PodState): NetplugError {
  return new NetplugError('install/refused', `Cannot start pod ${name} on node ${node}: ${reason ?? ''}`, {
    hint: 'Name the registry that has the images with --registry, or import the images on each node',
    facts: { pod: name, node },
  });
}

export function firstLine(text: string): string {
  return text.trim().split('\n')[0] ?? '';
}
