// Stands in for kubelets, the controllers of workloads, agents and the operator on an API server that has none of them: pods
// exist as objects, are replaced as their workload's strategy says, and become ready.
import { createHash } from 'node:crypto';
import { systemClock } from '../../src/base/clock.ts';
import { VERSION } from '../../src/base/version.ts';
import { HOLD_AGENTS } from '../../src/model/installation.ts';
import { systemRandom } from '../../src/base/random.ts';
import { keepClusterInformation } from '../../src/datastore/keep-cluster-information.ts';
import type { Store } from '../../src/datastore/store.ts';
import { handleOf } from '../../src/model/names.ts';
import { formatAddress } from '../../src/net/address.ts';
import { assign } from '../../src/ipam/assign.ts';
import { release } from '../../src/ipam/release.ts';
import { silentLog } from '../../src/base/log.ts';
import { clusterObjects } from '../../src/install/cluster/cluster-objects.ts';
import { settingsOf } from '../../src/install/cluster/settings-of.ts';
import type { ApiObject } from '../../src/kube/objects.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { collectionHolding, referenceOf } from '../../src/kube/objects/reference.ts';
import { nodeName, poolOf } from './fixtures.ts';
import { attachmentOf, requestOf } from './ipam-bench.ts';
import type { ApiServer } from './kube.ts';
import type { Json } from './node.ts';
import { putStatus } from './put-status.ts';

export interface RolloutBehaviour {
  /** Where the agents of the cluster keep their records. */
  readonly store: Store;
  /**
   * Returns what a pod that probes the network prints before it fails; undefined when it does not fail. `SERVER` stands for the
   * address of a pod that answers datagrams.
   */
  readonly failure?: (pod: string) => string | undefined;
  /** Whether no pod of a workload is replaced at the moment. */
  readonly isPaused?: () => boolean;
}

export interface SimulatedRollout extends AsyncDisposable {
  /** Agents of which node ran in which release, in the order in which they started. */
  readonly started: readonly { readonly node: string; readonly release: string }[];
  /** Names of all pods that have probed the network. */
  readonly probes: () => readonly string[];
  /** How often a node had no agent at all. */
  readonly gaps: () => number;
}

/** From which no image can be pulled. */
export const NO_REGISTRY = 'nowhere.example';
const EVERY_MS = 200;
const RESYNC_MS = 2000;
const NAMESPACE = 'netplug-system';
const PODS = { group: '', version: 'v1', plural: 'pods', namespace: NAMESPACE };
const INSTALLATIONS = { group: 'netplug.io', version: 'v3', plural: 'installations' };
const HASH = 'simulated/template';
const never = new AbortController().signal;

/** Runs until it is disposed. */
export function startSimulatedRollout(server: ApiServer, behaviour: RolloutBehaviour): SimulatedRollout {
  const stop = new AbortController();
  const api = new OrchApi({ from: 'file', path: server.kubeconfig }, { manager: 'simulated-controllers' });
  const started: { node: string; release: string }[] = [];
  const operator = new SimulatedOperator(api);
  const addresses = podAddresses(behaviour.store);
  const probes = new Set<string>();
  let gaps = 0;
  const step = async (): Promise<void> => {
    const nodes = (await api.list({ group: '', version: 'v1', plural: 'nodes' }, {}, never)).map(
      ({ metadata }) => metadata.name,
    );
    const pods = await api.list(PODS, {}, never);
    for (const pod of pods) {
      const { name, deletionTimestamp } = pod.metadata;
      if (isProbe(pod)) probes.add(name);
      // As a kubelet does once the containers have ended.
      if (typeof deletionTimestamp === 'string') {
        await remove(api, pod, 0);
        await addresses.release(pod);
      } else await settle(api, pod, { ...behaviour, addresses, pods });
    }
    const present = new Set<string>();
    for (const plural of ['daemonsets', 'deployments'] as const) {
      const collection = { group: 'apps', version: 'v1', plural, namespace: NAMESPACE };
      for (const workload of (await api.list(collection, {}, never)) as readonly Json[]) {
        const { name } = workload.metadata;
        present.add(name);
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
          if ((here.length > 0 && isHeld) || changed || behaviour.isPaused?.() === true) continue;
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
        await putStatus(api, { collection, object: workload as ApiObject, status }, never);
        if (name === 'netplug-operator' && available > 0 && updated > 0) await operator.work(workload, nodes.length);
      }
    }
    // As the garbage collector does.
    for (const pod of pods)
      if (
        HASH in (pod.metadata.annotations ?? {}) &&
        !present.has(pod.metadata.labels?.['app.kubernetes.io/name'] ?? '')
      )
        await remove(api, pod);
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
    probes: () => [...probes],
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

/** The time for it to end is that of its spec unless given. */
async function remove(api: OrchApi, { metadata }: ApiObject, graceSeconds?: number): Promise<void> {
  const preconditions = { uid: metadata.uid ?? '' };
  await api.delete({ collection: PODS, name: metadata.name, preconditions, graceSeconds }, never);
}

interface PodAddresses {
  assign(pod: ApiObject): Promise<string>;
  release(pod: ApiObject): Promise<void>;
}

/** Assigns addresses of the datastore to pods, as the plugin does. */
function podAddresses(store: Store): PodAddresses {
  const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
  const attachmentIn = ({ metadata }: ApiObject) => attachmentOf(metadata.uid ?? '');
  return {
    assign: async (pod) => {
      const { name, uid } = pod.metadata;
      const { resources: pools } = await store.listResources('IPPool', never);
      if (pools.length === 0) await store.createResource(poolOf('pods', '192.168.0.0/16'), never);
      const request = {
        ...requestOf('', { node: (pod as Json).spec.nodeName }),
        attachment: attachmentIn(pod),
        pod: { namespace: NAMESPACE, name, uid },
      };
      const [assigned] = await assign(ports, request, { signal: never, cleanupSignal: never });
      return formatAddress(assigned!.address);
    },
    release: async (pod) => {
      if (!isProbe(pod)) return;
      const handle = handleOf(attachmentIn(pod));
      const node = nodeName((pod as Json).spec.nodeName);
      await release(ports, { node, which: (held) => held.handle === handle }, never);
    },
  };
}

function isProbe({ metadata: { name } }: ApiObject): boolean {
  return /^netplug-(probe|flow)-/.test(name);
}

async function settle(
  api: OrchApi,
  pod: ApiObject,
  {
    failure,
    addresses,
    pods,
  }: RolloutBehaviour & { readonly addresses: PodAddresses; readonly pods: readonly ApiObject[] },
): Promise<void> {
  const { name } = pod.metadata;
  const { containers } = (pod as Json).spec;
  const stateOf = (state: Json, ready: boolean) =>
    containers.map((container: Json) => ({
      name: container.name,
      image: container.image,
      imageID: '',
      ready,
      restartCount: 0,
      state,
    }));
  const { phase } = (pod as Json).status;
  const images: readonly string[] = containers.map(({ image }: Json) => image);
  if (images.some((image) => image.startsWith(`${NO_REGISTRY}/`))) {
    const waiting = { reason: 'ImagePullBackOff', message: 'there is no such registry' };
    const status = { phase: 'Pending', containerStatuses: stateOf({ waiting }, false) };
    await putStatus(api, { collection: PODS, object: pod, status }, never);
    return;
  }
  if (phase === 'Succeeded' || phase === 'Failed') return;
  const server = pods.find(({ metadata }) => metadata.name.startsWith('netplug-flow-server-'));
  const printed = isProbe(pod) ? failure?.(name)?.replace('SERVER', (server as Json)?.status?.podIP) : undefined;
  const isOver = printed !== undefined || name.startsWith('netplug-probe-client');
  if (isOver) {
    const exitCode = printed === undefined ? 0 : 1;
    const terminated = { exitCode, message: printed ?? '', startedAt: null, finishedAt: null };
    const status = {
      phase: exitCode === 0 ? 'Succeeded' : 'Failed',
      conditions: [{ type: 'Ready', status: 'False' }],
      containerStatuses: stateOf({ terminated }, false),
    };
    await putStatus(api, { collection: PODS, object: pod, status }, never);
    return;
  }
  if (phase === 'Running') return;
  const podIP = isProbe(pod) ? await addresses.assign(pod) : '172.20.0.7';
  const status = {
    phase: 'Running',
    podIP,
    podIPs: [{ ip: podIP }],
    conditions: [{ type: 'Ready', status: 'True' }],
    containerStatuses: stateOf({ running: { startedAt: null } }, true),
  };
  await putStatus(api, { collection: PODS, object: pod, status }, never);
}

/** Applies what an operator would: at once when something has changed, and now and then what is as before. */
class SimulatedOperator {
  readonly #api: OrchApi;
  #applied = '';
  #appliedAtMs = 0;

  constructor(api: OrchApi) {
    this.#api = api;
  }

  async work(operator: Json, nodes: number): Promise<void> {
    const answer = await this.#api.get(INSTALLATIONS, 'default', never);
    if (answer.outcome !== 'ok') return;
    const { metadata, spec } = answer.value as Json;
    const release = /:(v[\d.]+)/.exec(operator.spec.template.spec.containers[0].image)?.[1] ?? '';
    const wanted = JSON.stringify([release, nodes, spec, metadata.annotations, metadata.uid]);
    if (wanted === this.#applied && Date.now() - this.#appliedAtMs < RESYNC_MS) return;
    await operate(this.#api, { release, nodes, installation: answer.value });
    this.#applied = wanted;
    this.#appliedAtMs = Date.now();
  }
}

/** Applies what an operator of that release does. */
async function operate(
  api: OrchApi,
  {
    release,
    nodes,
    installation,
  }: { readonly release: string; readonly nodes: number; readonly installation: ApiObject },
): Promise<void> {
  const { metadata, spec } = installation as Json;
  const settings = settingsOf(spec ?? {}, {
    release,
    variant: 'policy-and-networking',
    datastore: { type: 'orch' },
    defaultPools: [{ cidr: '192.168.0.0/16' }],
    nodes,
  });
  // Older operators do not know the annotation.
  const areAgentsHeld = release === VERSION && HOLD_AGENTS in (installation.metadata.annotations ?? {});
  for (const { stage, objects } of clusterObjects({ ...settings, areAgentsHeld })) {
    if (stage === 'definitions') continue;
    for (const object of objects) {
      const which = referenceOf(object);
      const [collection, name] = [collectionHolding(which), which.name];
      await api.patch(
        { collection, name },
        { kind: 'apply', body: object, manager: 'netplug-operator', force: true },
        never,
      );
    }
  }
  const conditions = [
    { type: 'Available', status: 'True', reason: 'Serving' },
    { type: 'Progressing', status: 'False', reason: 'AsConfigured' },
  ].map((each) => ({ ...each, message: '', lastTransitionTime: '2026-01-02T00:00:00Z' }));
  const status = { observedGeneration: metadata.generation, conditions };
  await putStatus(api, { collection: INSTALLATIONS, object: installation, status }, never);
}
