// An API server as far as pods of the system namespace and Nodes go, with kubelets that run each pod as the test says.
import { Readable } from 'node:stream';
import { OrchApi } from '../../src/kube/orch-api.ts';
import type { Transport } from '../../src/kube/transport.ts';
import type { Json } from './node.ts';

export interface RunningPod {
  readonly name: string;
  readonly command: readonly string[];
}

/** Returns what a pod prints before it fails; undefined while it runs. */
export type PodFailure = (pod: RunningPod) => string | undefined;

/** Nodes are ready. A pod is ready with an address of its own, unless it has failed by the time of a read. */
export function podsInMemory(nodes: readonly string[], failure: PodFailure): OrchApi {
  const pods = new Map<string, Json>();
  let addresses = 0;
  const look = (): readonly Json[] => {
    for (const [name, pod] of pods) {
      const { command } = pod.spec.containers[0];
      const message = pod.status.phase === 'Running' ? failure({ name, command }) : undefined;
      if (message !== undefined) pod.status = statusOf(pod.status.podIP, { terminated: { exitCode: 1, message } });
    }
    return [...pods.values()];
  };
  const answerTo = (method: string, path: string, body: string | undefined): Json => {
    const [place = '', query = ''] = path.split('?');
    const name = /\/pods\/([^/]+)$/.exec(place)?.[1] ?? '';
    if (place === '/api/v1/nodes') return listOf(nodes.map(nodeOf));
    if (place.endsWith('/events')) return listOf([]);
    if (name === '') return listOf(look().filter((pod) => isSelected(pod, query)));
    if (method === 'PATCH') {
      const pod = JSON.parse(body ?? '{}');
      addresses += 1;
      pod.metadata.creationTimestamp = new Date(0).toISOString();
      pod.status = statusOf(`10.1.0.${String(addresses)}`, { running: {} });
      pods.set(name, pod);
      return pod;
    }
    const found = look().find(({ metadata }) => metadata.name === name);
    if (method === 'DELETE') pods.delete(name);
    return found;
  };
  const open: Transport['open'] = async (_, { method, path, body }) => {
    const value = answerTo(method, path, body);
    const text = JSON.stringify(value ?? { kind: 'Status', reason: 'NotFound', message: `${path} is missing` });
    return Promise.resolve({
      status: value === undefined ? 404 : 200,
      headers: {},
      body: Readable.from([Buffer.from(text)]),
    });
  };
  return new OrchApi({ from: 'api-root', url: 'http://127.0.0.1:1' }, { transport: { open, close: () => undefined } });
}

function listOf(items: readonly Json[]): Json {
  return { metadata: { resourceVersion: '1' }, items };
}

function nodeOf(name: string): Json {
  return {
    metadata: { name },
    status: { conditions: [{ type: 'Ready', status: 'True' }], nodeInfo: { operatingSystem: 'linux' } },
  };
}

function statusOf(podIP: string, state: Json): Json {
  const isRunning = 'running' in state;
  return {
    phase: isRunning ? 'Running' : 'Failed',
    podIP,
    podIPs: [{ ip: podIP }],
    conditions: [{ type: 'Ready', status: isRunning ? 'True' : 'False' }],
    containerStatuses: [{ name: 'probe', ready: isRunning, restartCount: 0, state }],
  };
}

/** Reads the selector `app.kubernetes.io/name in (a,b)` of the query. */
function isSelected({ metadata }: Json, query: string): boolean {
  const selector = new URLSearchParams(query).get('labelSelector') ?? '';
  const names = /\((.*)\)/.exec(selector)?.[1]?.split(',') ?? [];
  return names.includes(metadata.labels['app.kubernetes.io/name']);
}
