import * as v from 'valibot';
import { NetplugError } from '../../../base/errors.ts';
import { INSTALLATION_NAME } from '../../../model/installation.ts';
import { API_VERSION } from '../../../model/resource.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import { NODES } from '../../../kube/paths.ts';
import { firstLine, imageWatch, podStateOf, type PodRun, SYSTEM_PODS } from './node-pods.ts';
import { hasFollowingPods, SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import { type WaitState, waitUntil } from './wait-until.ts';
import { DAEMON_SETS, DEFINITIONS, DEPLOYMENTS } from './read-preflight-facts.ts';

const Conditions = v.optional(
  v.array(
    v.looseObject({
      type: v.string(),
      status: v.string(),
      reason: v.optional(v.string()),
      message: v.optional(v.string()),
    }),
  ),
);
const Workload = v.object({
  metadata: v.looseObject({ generation: v.optional(v.number(), 0) }),
  spec: v.looseObject({ replicas: v.optional(v.number()) }),
  status: v.optional(
    v.looseObject({
      observedGeneration: v.optional(v.number(), 0),
      desiredNumberScheduled: v.optional(v.number()),
      updatedNumberScheduled: v.optional(v.number(), 0),
      numberAvailable: v.optional(v.number(), 0),
      updatedReplicas: v.optional(v.number(), 0),
      availableReplicas: v.optional(v.number(), 0),
    }),
  ),
});
const WithConditions = v.object({ status: v.optional(v.looseObject({ conditions: Conditions })) });

/** What is not ready yet; undefined when it is. */
type Judge = (object: ApiObject) => string | undefined;

/** Reports how far a DaemonSet or Deployment is. */
export function workloadLag(object: ApiObject): string | undefined {
  const read = v.safeParse(Workload, object);
  if (!read.success) return 'it has no status';
  const { metadata, spec, status } = read.output;
  if (status === undefined || status.observedGeneration < metadata.generation) return 'not observed yet';
  const isSet = status.desiredNumberScheduled !== undefined;
  const wanted = isSet ? (status.desiredNumberScheduled ?? 0) : (spec.replicas ?? 1);
  const available = isSet ? status.numberAvailable : status.availableReplicas;
  const updated = isSet ? status.updatedNumberScheduled : status.updatedReplicas;
  const ready = hasFollowingPods(object.metadata.name) ? Math.min(available, updated) : available;
  if (wanted === 0) return isSet ? 'scheduled to no node' : undefined;
  return ready >= wanted ? undefined : `${String(ready)} of ${String(wanted)} ready`;
}

function conditionLag(type: string): Judge {
  return (object) => {
    const read = v.safeParse(WithConditions, object);
    const conditions = read.success ? (read.output.status?.conditions ?? []) : [];
    const found = conditions.find((condition) => condition.type === type);
    if (found?.status === 'True') return undefined;
    const degraded = conditions.find((condition) => condition.type === 'Degraded' && condition.status === 'True');
    const why = degraded ?? found;
    return why === undefined ? 'no status yet' : `${why.reason ?? why.type}: ${why.message ?? ''}`;
  };
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
  const lag = conditionLag('Established');
  await waitFor(run, 'definitions', async () => {
    for (const name of names) {
      const answer = await run.api.get(DEFINITIONS, name, run.signal);
      const open = answer.outcome === 'ok' ? lag(answer.value) : 'missing';
      if (open !== undefined) return `${name}: ${open}`;
    }
    return undefined;
  });
}

export interface WorkloadName {
  readonly kind: 'DaemonSet' | 'Deployment';
  readonly name: string;
}

/** Waits until the workload runs everywhere. Fails early when its image cannot be pulled. */
export async function waitForWorkload(run: PodRun, { kind, name }: WorkloadName): Promise<void> {
  const { api, clock, signal } = run;
  const refuseWithoutImage = imageWatch(clock);
  const collection = { ...(kind === 'DaemonSet' ? DAEMON_SETS : DEPLOYMENTS), namespace: SYSTEM_NAMESPACE };
  await waitFor(run, name, async () => {
    const answer = await api.get(collection, name, signal);
    const open = answer.outcome === 'ok' ? workloadLag(answer.value) : 'missing';
    if (open === undefined) return undefined;
    const pods = await api.list(SYSTEM_PODS, { labelSelector: `app.kubernetes.io/name=${name}` }, signal);
    const states = pods.map(podStateOf);
    refuseWithoutImage(states);
    const failing = states.find(({ phase, reason }) => phase !== 'ready' && reason !== undefined);
    return failing?.reason === undefined
      ? open
      : `${open}; ${failing.node === '' ? failing.name : failing.node}: ${firstLine(failing.reason)}`;
  });
}

/** Waits until the operator reports that its installation is available. */
export async function waitForInstallation(run: PodRun): Promise<void> {
  const [group = '', version = ''] = API_VERSION.split('/');
  const lag = conditionLag('Available');
  await waitFor(run, 'installation', async () => {
    const answer = await run.api.get({ group, version, plural: 'installations' }, INSTALLATION_NAME, run.signal);
    return answer.outcome === 'ok' ? lag(answer.value) : 'missing';
  });
}

/** Waits until every node with Linux is ready, and returns their names. */
export async function waitForNodes(run: PodRun): Promise<void> {
  const lag = conditionLag('Ready');
  await waitFor(run, 'nodes', async () => {
    const nodes = (await run.api.list(NODES, {}, run.signal)).filter(isLinux);
    const open = nodes
      .map((node) => ({ name: node.metadata.name, why: lag(node) }))
      .filter(({ why }) => why !== undefined);
    const [first] = open;
    if (first === undefined) return undefined;
    return `${String(nodes.length - open.length)} of ${String(nodes.length)} ready; ${first.name}: ${firstLine(first.why ?? '')}`;
  });
}

export function isLinux({ metadata }: ApiObject): boolean {
  return (metadata.labels?.['kubernetes.io/os'] ?? 'linux') === 'linux';
}
