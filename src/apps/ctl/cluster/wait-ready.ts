import { NetplugError } from '../../../base/errors.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { INSTALLATION_NAME } from '../../../model/installation.ts';
import { isRecord } from '../../../model/read-schema.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import { referenceOf, referenceTo } from '../../../kube/objects/reference.ts';
import { AGENT_SET, hasFollowingPods, SYSTEM_NAMESPACE, systemObject } from '../../../install/cluster/names.ts';
import { findCondition, isConditionTrue } from '../../../kube/status/conditions.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { podState } from '../../../kube/status/pod-state.ts';
import { workloadState } from '../../../kube/status/workload-state.ts';
import { agentErrors, withReported } from './agent-errors.ts';
import { firstLine, imageWatch, type PodRun, SYSTEM_PODS } from './node-pods.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { type WaitState, waitUntil } from './wait-until.ts';

/** Reports how far a DaemonSet or Deployment is; undefined when it is rolled out. */
export function workloadLag(object: Manifest): string | undefined {
  const { name } = referenceOf(object);
  const state = workloadState(object, hasFollowingPods(name) ? 'following' : 'kept');
  return state === undefined ? 'it has no status' : state.lag;
}

/** Returns why a condition is not True; undefined when it is. */
function conditionLag(object: ApiObject, type: string): string | undefined {
  return isConditionTrue(object, type) ? undefined : conditionText(object, type);
}

/** Says what the condition does, or Degraded when that is True. */
function conditionText(object: ApiObject, type: string): string {
  const degraded = isConditionTrue(object, 'Degraded') ? 'Degraded' : type;
  const why = findCondition(object, degraded);
  return why === undefined ? 'no status yet' : `${why.reason === '' ? why.type : why.reason}: ${why.message}`;
}

/** Waits until the function returns nothing that is missing, and shows what is. @throws install/not-ready */
export async function waitFor(run: PodRun, what: string, lag: () => Promise<string | undefined>): Promise<void> {
  const look = async (): Promise<WaitState<undefined>> => {
    const open = await lag();
    return open === undefined ? { found: undefined } : { open: `${what}: ${open}` };
  };
  await waitUntil(
    run,
    look,
    (open, why) =>
      new NetplugError('install/not-ready', `${why} while waiting for ${open}`, {
        hint: `Look at "kubectl -n ${SYSTEM_NAMESPACE} get pods -o wide", correct the cause, and run the command again`,
        facts: { what },
      }),
  );
}

/** Waits until the API server serves the kinds. */
export async function waitForDefinitions(run: PodRun, names: readonly string[]): Promise<void> {
  await waitFor(run, 'definitions', async () => {
    for (const name of names) {
      const found = await findObject(run.api, referenceTo('CustomResourceDefinition', { name }), run.signal);
      const open = found === undefined ? 'missing' : conditionLag(found, 'Established');
      if (open !== undefined) return `${name}: ${open}`;
    }
    return undefined;
  });
}

export interface WorkloadName {
  readonly kind: 'DaemonSet' | 'Deployment';
  readonly name: string;
}

export interface AwaitedWorkload extends WorkloadName {
  /** Release of the agents whose errors end the wait; that of this tool unless given. */
  readonly release?: string;
}

/** Waits until the workload runs everywhere. Fails early when its image cannot be pulled, or agents report a lasting error. */
export async function waitForWorkload(run: PodRun, { kind, name, release }: AwaitedWorkload): Promise<void> {
  const { api, clock, signal } = run;
  const refuseWithoutImage = imageWatch(clock);
  const reportedError =
    name === AGENT_SET ? agentErrors(run, release) : async (): Promise<undefined> => Promise.resolve(undefined);
  await waitFor(run, name, async () => {
    const found = await findObject(api, systemObject(kind, name), signal);
    const open = found === undefined ? 'missing' : workloadLag(found);
    if (open === undefined) return undefined;
    const pods = await api.list(SYSTEM_PODS, { labelSelector: `app.kubernetes.io/name=${name}` }, signal);
    const states = pods.map(podState);
    refuseWithoutImage(states);
    const failing = states.find(({ phase, reason }) => phase !== 'ready' && reason !== undefined);
    const reported = await reportedError();
    if (reported !== undefined) return withReported(open, reported);
    if (failing?.reason === undefined) return open;
    return `${open}; ${failing.node === '' ? failing.name : failing.node}: ${firstLine(failing.reason)}`;
  });
}

/**
 * Waits until the operator has carried out the spec of its installation, `as-configured`, and until that is available as well.
 * @throws install/refused when the operator refuses the spec, install/not-ready
 */
export async function waitForInstallation(run: PodRun, until: 'as-configured' | 'available'): Promise<void> {
  const reportedError = agentErrors(run);
  await waitFor(run, 'installation', async () => {
    const found = await findObject(run.api, referenceTo('Installation', { name: INSTALLATION_NAME }), run.signal);
    const available = (object: ApiObject): string | undefined =>
      until === 'available' ? conditionLag(object, 'Available') : undefined;
    const open = found === undefined ? 'missing' : (specLag(found) ?? available(found));
    // Degraded has the errors of agents as well; this one ends a wait that they would not let end.
    if (open !== undefined) await reportedError();
    return open;
  });
}

/** Returns how far the operator is with the spec; undefined when every component is as configured. @throws install/refused */
function specLag(installation: ApiObject): string | undefined {
  const observed = generationIn(installation['status'], 'observedGeneration');
  if (observed === undefined) return conditionText(installation, 'Progressing');
  if (observed < (generationIn(installation.metadata, 'generation') ?? 0))
    return 'the operator has not read the change yet';
  const progressing = findCondition(installation, 'Progressing');
  if (progressing?.reason === 'AsConfigured') return undefined;
  const text = conditionText(installation, 'Progressing');
  if (progressing?.status !== 'False') return text;
  throw new NetplugError(
    'install/refused',
    `Cannot carry out the Installation: netplug-operator refuses it: ${visibleText(text)}`,
    {
      hint: 'Correct the field that it names; "kubectl get installation default -o yaml" shows the whole status',
    },
  );
}

function generationIn(holder: unknown, field: 'generation' | 'observedGeneration'): number | undefined {
  const found = isRecord(holder) ? holder[field] : undefined;
  return typeof found === 'number' ? found : undefined;
}

/** Waits until every node with Linux is ready, and returns their names. */
export async function waitForNodes(run: PodRun): Promise<void> {
  const reportedError = agentErrors(run);
  await waitFor(run, 'nodes', async () => {
    const nodes = await readNodes(run.api, run.signal);
    const open = nodes.filter(({ isReady }) => !isReady);
    const [first] = open;
    if (first === undefined) return undefined;
    const reported = await reportedError();
    const said = firstLine(first.notReady ?? '');
    // Agents are ready before: the conflist is there.
    const next = /cni plugin not initialized/.test(said)
      ? '; "netplugctl doctor" tells which folder its runtime reads'
      : '';
    const why = reported ?? `${first.name}: ${said}${next}`;
    return `${String(nodes.length - open.length)} of ${String(nodes.length)} ready; ${why}`;
  });
}
