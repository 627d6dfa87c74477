// Nodes without machines: pods on them become ready, or wait or fail for a reason that a test names.
import { setTimeout } from 'node:timers/promises';
import { isNetplugError } from '../../src/base/errors.ts';
import { OrchApi } from '../../src/kube/orch-api.ts';
import { NODES, PODS } from '../../src/kube/paths.ts';
import type { ApiServer } from './kube.ts';
import type { Json } from './node.ts';
import { putStatus } from './put-status.ts';

const POLL_MS = 150;
/** Pods that end by themselves. */
const ENDS = /^netplug-(node-check|probe-client)-/;

export interface SimulatedKubelets extends AsyncDisposable {
  /** Names of all pods that have existed. */
  readonly pods: ReadonlySet<string>;
  /** Makes containers of new pods wait on that node, for a reason of the kubelet; undefined lets them start. */
  failOn(node: string, reason: string | undefined): void;
  addNode(name: string, podCidr?: string): Promise<void>;
}

export interface KubeletBehaviour {
  /** Returns what a pod prints before it fails; undefined when it does not fail. */
  readonly failure?: (pod: string) => string | undefined;
  /** Returns the message that a container leaves that succeeds; undefined for none. */
  readonly message?: (pod: string) => string | undefined;
  /** Reason of a pod that waits for its image. */
  readonly waiting?: (pod: string) => string | undefined;
}

export interface SimulatedKubeletsOptions extends KubeletBehaviour {
  /** How many nodes are made, `n1` and so on; none unless given. */
  readonly nodes?: number;
  /** For an API server without controllers: writes the status of DaemonSets and Deployments, without pods of theirs. */
  readonly workloads?: 'of-controllers' | 'simulated';
}

/** Runs until it is disposed. */
export async function startSimulatedKubelets(
  server: Pick<ApiServer, 'kubeconfig'>,
  { nodes = 0, workloads = 'of-controllers', failure, message, waiting }: SimulatedKubeletsOptions = {},
): Promise<SimulatedKubelets> {
  const api = new OrchApi({ from: 'file', path: server.kubeconfig }, { manager: 'simulated-kubelet' });
  const stop = new AbortController();
  const { signal } = stop;
  const failing = new Map<string, string>();
  const pods = new Set<string>();
  let made = 0;

  const addNode = async (name: string, podCidr?: string): Promise<void> => {
    made += 1;
    const labels = { 'kubernetes.io/os': 'linux', 'kubernetes.io/hostname': name };
    const spec = podCidr === undefined ? {} : { podCIDR: podCidr, podCIDRs: [podCidr] };
    const object = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels }, spec };
    await api.create({ collection: NODES, object }, signal);
    const status = {
      addresses: [{ type: 'InternalIP', address: `192.168.33.${String(made)}` }],
      conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: '' }],
      capacity: { cpu: '8', memory: '32Gi', pods: '110' },
      allocatable: { cpu: '8', memory: '32Gi', pods: '110' },
    };
    await putStatus(api, { collection: NODES, object, status }, signal);
  };
  for (let index = 1; index <= nodes; index += 1) await addNode(`n${String(index)}`);

  const settle = async (pod: Json): Promise<void> => {
    const { name, namespace, uid, deletionTimestamp } = pod.metadata;
    const collection = { ...PODS, namespace };
    const node: string | undefined = pod.spec.nodeName;
    if (node === undefined) return;
    pods.add(name);
    if (deletionTimestamp !== undefined) {
      await api.delete({ collection, name, preconditions: { uid }, graceSeconds: 0 }, signal);
      return;
    }
    // What runs goes on.
    if (['Running', 'Succeeded', 'Failed'].includes(pod.status.phase)) return;
    const reason = failing.get(node) ?? waiting?.(name);
    if (reason !== undefined && JSON.stringify(pod.status).includes(reason)) return;
    const said = { failure: failure?.(name), message: message?.(name) };
    const status = reason === undefined ? startedStatus(pod, pods.size, said) : waitingStatus(pod, reason);
    await putStatus(api, { collection, object: pod, status }, signal);
  };

  const ended = (async () => {
    while (!signal.aborted) {
      try {
        // Everything of a pod is in the list, which no cache has trimmed.
        for (const pod of await api.list(PODS, {}, signal)) await settle(pod);
        if (workloads === 'simulated') await settleWorkloads(api, signal);
      } catch (cause) {
        // The test stops the API server at times.
        if (!signal.aborted && !isNetplugError(cause)) throw cause;
      }
      await setTimeout(POLL_MS);
    }
  })();

  return {
    pods,
    failOn: (node, reason) => {
      if (reason === undefined) failing.delete(node);
      else failing.set(node, reason);
    },
    addNode,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await ended;
      await api[Symbol.asyncDispose]();
    },
  };
}

function waitingStatus(pod: Json, reason: string): Json {
  const state = { waiting: { reason, message: 'as the test says' } };
  return {
    phase: 'Pending',
    conditions: [ready('False')],
    containerStatuses: containersOf(pod, { state, ready: false }),
  };
}

function startedStatus(
  pod: Json,
  index: number,
  { failure: printed, message = '' }: { readonly failure: string | undefined; readonly message: string | undefined },
): Json {
  if (printed !== undefined || ENDS.test(pod.metadata.name)) {
    const terminated = {
      exitCode: printed === undefined ? 0 : 1,
      message: printed ?? message,
      startedAt: null,
      finishedAt: null,
    };
    const phase = printed === undefined ? 'Succeeded' : 'Failed';
    return { phase, containerStatuses: containersOf(pod, { state: { terminated }, ready: false }) };
  }
  const podIP = `10.244.${String(index % 250)}.7`;
  return {
    phase: 'Running',
    podIP,
    podIPs: [{ ip: podIP }],
    conditions: [ready('True')],
    containerStatuses: containersOf(pod, { state: { running: {} }, ready: true }),
  };
}

function ready(status: 'True' | 'False'): Json {
  return { type: 'Ready', status, lastTransitionTime: '2026-01-01T00:00:00Z' };
}

function containersOf(pod: Json, more: { readonly state: object; readonly ready: boolean }): Json {
  return pod.spec.containers.map(({ name, image }: Json) => ({ name, image, imageID: 'i', restartCount: 0, ...more }));
}

async function settleWorkloads(api: OrchApi, signal: AbortSignal): Promise<void> {
  const namespace = 'netplug-system';
  const nodes = (await api.list(NODES, {}, signal)).length;
  for (const plural of ['daemonsets', 'deployments']) {
    const collection = { group: 'apps', version: 'v1', plural, namespace };
    for (const workload of await api.list(collection, {}, signal)) {
      const status = workloadStatus(plural, workload, nodes);
      await putStatus(api, { collection, object: workload, status }, signal);
    }
  }
}

function workloadStatus(plural: string, { metadata, spec }: Json, nodes: number): Json {
  const observedGeneration = metadata.generation;
  if (plural === 'deployments') {
    const { replicas } = spec;
    return {
      observedGeneration,
      replicas,
      updatedReplicas: replicas,
      readyReplicas: replicas,
      availableReplicas: replicas,
    };
  }
  return {
    observedGeneration,
    desiredNumberScheduled: nodes,
    currentNumberScheduled: nodes,
    numberMisscheduled: 0,
    numberReady: nodes,
    updatedNumberScheduled: nodes,
    numberAvailable: nodes,
  };
}
