import * as v from 'valibot';
import { ownValue } from '../../base/own-value.ts';
import type { ApiObject } from '../objects.ts';
import { findCondition, isConditionTrue } from './conditions.ts';

const text = v.nullish(v.string(), '');
const count = v.nullish(v.number(), 0);
const ended = v.nullish(v.looseObject({ exitCode: count, reason: text, message: text, finishedAt: text }));
const container = v.looseObject({
  name: text,
  ready: v.nullish(v.boolean(), false),
  restartCount: count,
  state: v.nullish(
    v.looseObject({
      waiting: v.nullish(v.looseObject({ reason: text, message: text })),
      running: v.nullish(v.looseObject({})),
      terminated: ended,
    }),
    {},
  ),
  lastState: v.nullish(v.looseObject({ terminated: ended }), {}),
});
const containers = v.nullish(v.array(container), []);
const pod = v.looseObject({
  spec: v.nullish(
    v.looseObject({ nodeName: text, containers: v.nullish(v.array(v.looseObject({ image: text })), []) }),
    {},
  ),
  status: v.nullish(
    v.looseObject({
      phase: text,
      reason: text,
      message: text,
      podIP: text,
      podIPs: v.nullish(v.array(v.looseObject({ ip: v.string() })), []),
      initContainerStatuses: containers,
      containerStatuses: containers,
    }),
    {},
  ),
});
type Container = v.InferOutput<typeof container>;

export interface PodState {
  readonly name: string;
  readonly namespace: string;
  /** Value of `app.kubernetes.io/name`. */
  readonly component: string;
  /** Empty until it is scheduled. */
  readonly node: string;
  readonly phase: 'pending' | 'running' | 'ready' | 'succeeded' | 'failed';
  readonly addresses: readonly string[];
  /** The images of its containers. */
  readonly images: readonly string[];
  readonly readyContainers: number;
  readonly restarts: number;
  /** RFC 3339, of the last restart; undefined when it is unknown. */
  readonly restartedAt?: string | undefined;
  /** Reason why a container waits, such as `ImagePullBackOff`; undefined when none does. */
  readonly waiting?: string | undefined;
  /** Reason why it is not ready; undefined when it is. */
  readonly reason?: string | undefined;
  /** Last output of the container that has failed; undefined when none has. */
  readonly output?: string | undefined;
  /** What a container that has succeeded leaves as its message; undefined for none. */
  readonly message?: string | undefined;
  /** The exit code of the container that has failed. */
  readonly exitCode?: number | undefined;
}

/** Reasons of the kubelet that do not end without a change by the user. */
const STUCK = [
  'CrashLoopBackOff',
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
];
const PHASES: Readonly<Record<string, PodState['phase']>> = {
  Succeeded: 'succeeded',
  Failed: 'failed',
  Running: 'running',
};
const LONGEST_WORDS = 400;

/** Returns the state of a pod. Pure. */
export function podState(object: ApiObject): PodState {
  const read = v.safeParse(pod, object);
  const { spec, status } = read.success ? read.output : v.parse(pod, {});
  const { name, namespace = '', labels } = object.metadata;
  const own = status.containerStatuses;
  const all = [...status.initContainerStatuses, ...own];
  const failed =
    all
      .flatMap(({ state, lastState }) => [state.terminated, lastState.terminated])
      .find((each) => (each?.exitCode ?? 0) !== 0) ?? undefined;
  const isReady = isConditionTrue(object, 'Ready') && own.every(({ ready }) => ready);
  const phase = isReady ? 'ready' : (ownValue(PHASES, status.phase) ?? 'pending');
  const restarted = own.map(({ lastState }) => lastState.terminated?.finishedAt ?? '').filter((time) => time !== '');
  return {
    name,
    namespace,
    component: labels?.['app.kubernetes.io/name'] ?? '',
    node: spec.nodeName,
    phase,
    addresses: status.podIPs.length > 0 ? status.podIPs.map(({ ip }) => ip) : [status.podIP].filter((ip) => ip !== ''),
    images: spec.containers.map(({ image }) => image),
    readyContainers: own.filter(({ ready }) => ready).length,
    restarts: own.reduce((sum, { restartCount }) => sum + restartCount, 0),
    restartedAt: restarted.sort().at(-1),
    waiting: all.find(isWaiting)?.state.waiting?.reason ?? undefined,
    reason: phase === 'ready' ? undefined : whyUnready(object, all, firstOf(status.message, status.reason)),
    output: failed && firstOf(failed.message, failed.reason, `exit status ${String(failed.exitCode)}`).trim(),
    message: phase === 'succeeded' ? own.find(hasMessage)?.state.terminated?.message?.trim() : undefined,
    exitCode: failed?.exitCode,
  };
}

/** Reports whether a container waits for what does not come without a change by the user. */
export function isStuck({ waiting = '' }: PodState): boolean {
  return STUCK.includes(waiting);
}

/** Reports whether its image cannot be pulled. */
export function isWithoutImage({ waiting = '' }: PodState): boolean {
  return /^(ErrImage|ImagePull|InvalidImageName)/.test(waiting);
}

function hasMessage({ state }: Container): boolean {
  return (state.terminated?.message ?? '') !== '';
}

function isWaiting({ state }: Container): boolean {
  return state.waiting !== undefined && state.waiting !== null && state.waiting.reason !== 'PodInitializing';
}

function whyUnready(object: ApiObject, all: readonly Container[], said: string): string {
  const waiting = all.find(isWaiting);
  if (waiting !== undefined) {
    const { reason = '', message = '' } = waiting.state.waiting ?? {};
    const why = firstOf(lastWords(waiting), message);
    return `container ${waiting.name} waits: ${reason}${why === '' ? '' : ` (${why})`}`;
  }
  const scheduled = findCondition(object, 'PodScheduled');
  if (scheduled?.status === 'False') return `not scheduled: ${scheduled.message}`;
  const ended = all.find(({ state }) => (state.terminated?.exitCode ?? 0) !== 0);
  if (ended !== undefined) return `container ${ended.name} has failed (${lastWords(ended)})`;
  if (said !== '') return said;
  const unready = all.find(({ ready, state }) => !ready && (state.running ?? undefined) !== undefined);
  return unready === undefined ? 'has not started' : `container ${unready.name} is not ready`;
}

function firstOf(...texts: readonly string[]): string {
  return texts.find((text) => text !== '') ?? '';
}

/** Returns what a failed program has said at last, in one line: its last line with those indented below. */
function lastWords({ state, lastState }: Container): string {
  const { message = '' } = state.terminated ?? lastState.terminated ?? {};
  const [, last = ''] = /(?:^|\n)(\S[^\n]*(?:\n[ \t][^\n]*)*)$/.exec(message.trimEnd()) ?? [];
  const line = last.replaceAll(/\n\s+/g, '; ');
  return line.length > LONGEST_WORDS ? `${line.slice(0, LONGEST_WORDS - 1)}…` : line;
}
