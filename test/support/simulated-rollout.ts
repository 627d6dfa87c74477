// Stands in for kubelets, the controllers of workloads, agents and the operator on an API server that has none of them: pods
// exist as objects, are replaced as their workload's strategy says, and become ready.
import { createHash } from 'node:crypto';
import { systemClock } from '../../src/base/clock.ts';
import { systemRandom } from '../../src/base/random.ts';
import { keepClusterInformation } from '../../src/datastore/keep-cluster-information.ts';
import type { Store } from '../../src/datastore/store.ts';
import { clusterObjects } from '../../src/install/cluster/cluster-objects.ts';
import { settingsOf } from '../../src/install/cluster/settings-of.ts';
import type { ApiObject } from '../../src/kube/objects.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { locate } from '../../src/apps/ctl/cluster/api-objects.ts';
import type { ApiServer } from './kube.ts';
import type { Json } from './node.ts';

export interface RolloutBehaviour {
  /** Where the agents of the cluster keep their records. */
  readonly store: Store;
  /** Returns what a probe pod prints before it fails; undefined when it does not fail. */
  readonly failure?: (pod: string) => string | undefined;
}

export interface SimulatedRollout extends AsyncDisposable {
  /** Agents of which node ran in which release, in the order in which they started. */
  readonly started: readonly { readonly node: string; readonly release: string }[];
  /** How often a node had no agent at all. */
  readonly gaps: () => number;
}

const EVERY_MS = 100;
const NAMESPACE = 'netplug-system';
const PODS = { group: '', version: 'v1', plural: 'pods', namespace: NAMESPACE };
const HASH = 'simulated/template';
const never = new AbortController().signal;

/** Runs until it is disposed. */
export function startSimulatedRollout(server: ApiServer, behaviour: RolloutBehaviour): SimulatedRollout {
  const stop = new AbortController();
  const api = new OrchApi({ from: 'file', path: server.kubeconfig }, { manager: 'simulated-controllers' });
  const started: { node: string; release: string }[] = [];
  let gaps = 0;
  const step = async (): Promise<void> => {
    const nodes = (await api.list({ group: '', version: 'v1', plural: 'nodes' }, {}, never)).map(
      ({ metadata }) => metadata.name,
    );
    const pods = await api.list(PODS, {}, never);
    for (const pod of pods) {
      const { name, deletionTimestamp } = pod.metadata;
      // As a kubelet does once the containers have ended.
      if (typeof deletionTimestamp === 'string') {
        await server.kubectl(
          'delete',
          'pod',
          name,
          '-n',
          NAMESPACE,
          '--grace-period=0',
          '--force',
          '--wait=false',
          '--ignore-not-found',
        );
      } else await settle(api, pod, behaviour);
    }
    for (const plural of ['daemonsets', 'deployments'] as const) {
      const collection = { group: 'apps', version: 'v1', plural, namespace: NAMESPACE };
      for (const workload of (await api.list(collection, {}, never)) as readonly Json[]) {
        const { name } = workload.metadata;
        const own = pods.filter(({ metadata }) => metadata.labels?.['app.kubernetes.io/name'] === name);
        const hash = createHash('sha256').update(JSON.stringify(workload.spec.template)).digest('hex').slice(0, 12);
        const places = plural === 'daemonsets' ? nodes : nodes.slice(0, workload.spec.replicas);
        const isHeld = workload.spec.updateStrategy?.type === 'OnDelete';
        // A new pod starts beside the old one, one node at a time.
        let changed = false;
        for (const node of places) {
          const here = own.filter((pod) => (pod as Json).spec.nodeName === node);
          const fresh = here.find(({ metadata }) => metadata.annotations?.[HASH] === hash);
          if (fresh !== undefined) {
            for (const old of here) if (old !== fresh) await remove(api, old);
            continue;
          }
          if ((here.length > 0 && isHeld) || changed) continue;
          changed = true;
          await api.create({ collection: PODS, object: podOf(workload, { node, hash }) }, never);
          const release = /:(v[\d.]+)/.exec(workload.spec.template.spec.containers[0].image)?.[1] ?? '';
          if (name !== 'netplug-node') continue;
          if (here.length === 0 && started.some((each) => each.node === node) && !isHeld) gaps += 1;
          started.push({ node, release });
          await keepClusterInformation(
            { store: behaviour.store, clock: systemClock, random: systemRandom },
            { version: release, types: ['k8s'] },
            never,
          );
        }
        const isFresh = (pod: ApiObject): boolean => pod.metadata.annotations?.[HASH] === hash;
        const isReady = (pod: ApiObject): boolean => (pod as Json).status.phase === 'Running';
        const counted = own.filter((pod) => places.includes((pod as Json).spec.nodeName));
        const [updated, available] = [
          counted.filter(isFresh).length,
          Math.min(places.length, counted.filter(isReady).length),
        ];
        const status =
          plural === 'daemonsets'
            ? {
                observedGeneration: workload.metadata.generation,
                desiredNumberScheduled: places.length,
                currentNumberScheduled: places.length,
                numberMisscheduled: 0,
                numberReady: available,
                updatedNumberScheduled: Math.min(updated, places.length),
                numberAvailable: available,
              }
            : {
                observedGeneration: workload.metadata.generation,
                replicas: places.length,
                updatedReplicas: Math.min(updated, places.length),
                readyReplicas: available,
                availableReplicas: available,
              };
        await api.patch({ collection, name, subresource: 'status' }, { kind: 'merge', body: { status } }, never);
        if (name === 'netplug-operator' && available > 0 && updated > 0) await operate(api, workload, nodes.length);
      }
    }
  };
  const run = (async () => {
    while (!stop.signal.aborted) {
      // What the tool deletes at the same moment is found missing.
      await step().catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  })();
  return {
    started,
    gaps: () => gaps,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await run;
      await api[Symbol.asyncDispose]();
    },
  };
}

function podOf(workload: Json, { node, hash }: { node: string; hash: string }): Json {
  const { metadata, spec } = workload.spec.template;
  const name = `${workload.metadata.name}-${node}-${hash}-${Math.random().toString(36).slice(2, 6)}`;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: NAMESPACE, labels: metadata.labels, annotations: { [HASH]: hash } },
    spec: {
      nodeName: node,
      terminationGracePeriodSeconds: 0,
      containers: spec.containers.map((container: Json) => ({ name: container.name, image: container.image })),
    },
  };
}

async function remove(api: OrchApi, pod: ApiObject): Promise<void> {
  await api.delete(
    { collection: PODS, name: pod.metadata.name, preconditions: { uid: pod.metadata.uid ?? '' } },
    never,
  );
}

async function settle(api: OrchApi, pod: ApiObject, { failure }: RolloutBehaviour): Promise<void> {
  const { name } = pod.metadata;
  const { containers } = (pod as Json).spec;
  const state = { running: { startedAt: null } };
  const ready = containers.map((container: Json) => ({
    name: container.name,
    image: container.image,
    imageID: '',
    ready: true,
    restartCount: 0,
    state,
  }));
  let status: Json = {
    phase: 'Running',
    podIP: '10.244.0.7',
    podIPs: [{ ip: '10.244.0.7' }],
    conditions: [{ type: 'Ready', status: 'True' }],
    containerStatuses: ready,
  };
  if (name.startsWith('netplug-probe-client')) {
    const printed = failure?.(name);
    const exitCode = printed === undefined ? 0 : 1;
    const terminated = { exitCode, message: printed ?? '', startedAt: null, finishedAt: null };
    status = {
      phase: exitCode === 0 ? 'Succeeded' : 'Failed',
      containerStatuses: ready.map((each: Json) => ({ ...each, ready: false, state: { terminated } })),
    };
  }
  if ((pod as Json).status?.phase === status.phase) return;
  await api.patch({ collection: PODS, name, subresource: 'status' }, { kind: 'merge', body: { status } }, never);
}

/** Applies what an operator of that release would. */
async function operate(api: OrchApi, operator: Json, nodes: number): Promise<void> {
  const installations = { group: 'netplug.io', version: 'v3', plural: 'installations' };
  const answer = await api.get(installations, 'default', never);
  if (answer.outcome !== 'ok') return;
  const release = /:(v[\d.]+)/.exec(operator.spec.template.spec.containers[0].image)?.[1] ?? '';
  const { spec } = answer.value as Json;
  const settings = settingsOf(spec ?? {}, {
    release,
    variant: 'policy-and-networking',
    datastore: { type: 'orch' },
    defaultPools: [{ cidr: '192.168.0.0/16' }],
    nodes,
  });
  for (const { stage, objects } of clusterObjects(settings)) {
    if (stage === 'definitions') continue;
    for (const object of objects) {
      const { collection, name } = locate(object);
      await api.patch(
        { collection, name },
        { kind: 'apply', body: object, manager: 'netplug-operator', force: true },
        never,
      );
    }
  }
  const conditions = [
    { type: 'Available', status: 'True', reason: 'AllReady', message: '', lastTransitionTime: '2026-01-02T00:00:00Z' },
  ];
  await api.patch(
    { collection: installations, name: 'default', subresource: 'status' },
    { kind: 'merge', body: { status: { conditions } } },
    never,
  );
}
