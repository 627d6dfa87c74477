// A large cluster as the API server shows it to netplug-typha, and pods of it that come and go.
import { createHash } from 'node:crypto';
import { readObject } from '../../src/kube/objects.ts';
import { collectionPath, PODS } from '../../src/kube/paths.ts';
import { ENDPOINTS, endpointObject } from '../../src/datastore/orch/endpoint-objects.ts';
import { sourcesOf } from '../../src/datastore/orch/query-sources.ts';
import { collectionOf } from '../../src/datastore/orch/resource-objects.ts';
import { recordText } from '../../src/datastore/typha/record-text.ts';
import { trimmedObject } from '../../src/kube/trimmed-object.ts';
import { NETPLUG_NODE, NETPLUG_NODES } from '../../src/model/netplug-node.ts';
import { API_VERSION } from '../../src/model/resource.ts';
import { ReplayedApi, type ReplayedEvent } from '../../test/support/replayed-api.ts';
import { namespaceName, podAddress, podOf, policyOf } from './remote-pods.ts';

/** Set by what starts the server of a row with another number of pods. */
export const PODS_VARIABLE = 'NETPLUG_BENCH_FAN_OUT_PODS';
export const CLUSTER = { nodes: 1000, pods: Number(process.env[PODS_VARIABLE] ?? 10_000), policies: 1000 } as const;
/** Namespaces and service accounts. */
const ACCOUNTS = 50;
const PODS_PATH = collectionPath(PODS);
const ENDPOINTS_PATH = collectionPath(ENDPOINTS);
const POLICIES_PATH = collectionPath(collectionOf('GlobalNetworkPolicy'));
/** Objects that are converted at a time. */
const CONVERTED = 500;
/** Makes a pod as long as one of a cluster: 5.4 kB, of which the environment and the managers of fields are most. */
const FILLER = 'x'.repeat(40);
const ENVIRONMENT = Array.from({ length: 40 }, (_, index) => ({ name: `VARIABLE_${String(index)}`, value: FILLER }));

/** Where a pod is in its life, in the order of the events that an API server sends of it to a watch of scheduled pods. */
const STAGES = ['scheduled', 'created', 'running', 'ready', 'ending', 'gone'] as const;
type Stage = (typeof STAGES)[number];

export function openFanOutCluster(): ReplayedApi {
  return new ReplayedApi({
    [PODS_PATH]: { count: CLUSTER.pods, at: (number) => podObject(number, 'ready') },
    [ENDPOINTS_PATH]: { count: CLUSTER.pods, at: (number) => storedEndpoint(number) },
    [POLICIES_PATH]: { count: CLUSTER.policies, at: (number) => withVersion(policyOf(number)) },
    [collectionPath(NETPLUG_NODES)]: { count: CLUSTER.nodes, at: nodeObject },
    '/api/v1/serviceaccounts': {
      count: ACCOUNTS,
      at: (index) => withVersion({ metadata: { name: 'default', namespace: namespaceName(index) } }),
    },
  });
}

/** The number of events of one pod that comes and goes. */
export const EVENTS_OF_POD = STAGES.length;

/** Sends the next event of a pod, and what its node writes of its endpoint then. */
export function movePod(api: ReplayedApi, number: number, step: number): void {
  const stage = STAGES[step];
  if (stage === undefined) return;
  const type = stage === 'scheduled' ? 'ADDED' : stage === 'gone' ? 'DELETED' : 'MODIFIED';
  api.send(PODS_PATH, () => ({ type, object: podObject(number, stage) }));
  if (stage === 'created') api.send(ENDPOINTS_PATH, () => ({ type: 'ADDED', object: storedEndpoint(number) }));
  if (stage === 'gone') api.send(ENDPOINTS_PATH, () => ({ type: 'DELETED', object: storedEndpoint(number) }));
}

/** Returns the processor time that all pods and endpoints take to become texts of records, once they are read. */
export function conversionMs(): number {
  let ms = 0;
  for (const [query, collection, at] of [
    [{ kind: 'pods' }, PODS, (number: number) => podObject(number, 'ready')],
    [{ kind: 'endpoints' }, ENDPOINTS, storedEndpoint],
  ] as const) {
    const [source] = sourcesOf(query, 0, { withStored: true });
    for (let first = 0; first < CLUSTER.pods; first += CONVERTED) {
      const objects = Array.from({ length: CONVERTED }, (_, index) => {
        const object = readObject(at(first + index));
        return object === undefined ? [] : [trimmedObject(collection, object)];
      }).flat();
      const begun = process.threadCpuUsage();
      for (const object of objects)
        source?.watched?.recordsIn(object).forEach((record) => recordText(query.kind, record));
      const { user, system } = process.threadCpuUsage(begun);
      ms += (user + system) / 1000;
    }
  }
  return ms;
}

/** Writes a policy in which the mark is. */
export function writeMarked(api: ReplayedApi, mark: string): void {
  const { metadata, ...policy } = policyOf(0);
  const object = { ...policy, metadata: { ...metadata, uid: 'u', annotations: { mark } } };
  api.send(POLICIES_PATH, () => ({ type: 'MODIFIED', object }));
}

function podObject(number: number, stage: Stage): ReplayedEvent['object'] {
  const { metadata, spec } = podOf(number);
  const isRunning = stage === 'running' || stage === 'ready' || stage === 'ending';
  const ip = podAddress(number);
  const at = '2026-11-29T12:00:00Z';
  return {
    metadata: {
      name: spec.pod,
      namespace: metadata.namespace,
      uid: uidOf(spec.pod ?? ''),
      resourceVersion: '1',
      creationTimestamp: at,
      ...(stage === 'ending' || stage === 'gone' ? { deletionTimestamp: at } : {}),
      labels: metadata.labels,
      managedFields: [{ manager: 'kubelet', operation: 'Update', fieldsV1: { note: FILLER.repeat(25) } }],
    },
    spec: {
      nodeName: spec.node,
      serviceAccountName: 'default',
      containers: [
        {
          name: 'web',
          image: 'web:1',
          env: ENVIRONMENT,
          ports: [{ name: 'http', containerPort: 8080, protocol: 'TCP' }],
        },
      ],
    },
    status: {
      phase: isRunning ? 'Running' : 'Pending',
      ...(isRunning ? { podIP: ip, podIPs: [{ ip }] } : {}),
      conditions: [
        { type: 'Ready', status: stage === 'ready' ? 'True' : 'False', lastTransitionTime: at },
        { type: 'PodScheduled', status: 'True', lastTransitionTime: at },
      ],
    },
  } as ReplayedEvent['object'];
}

function storedEndpoint(number: number): ReplayedEvent['object'] {
  const endpoint = podOf(number);
  const { metadata, ...object } = endpointObject({
    ...endpoint,
    spec: { ...endpoint.spec, podUID: uidOf(endpoint.spec.pod ?? '') },
  });
  return { ...object, metadata: { ...metadata, uid: uidOf(metadata.name), resourceVersion: '1' } };
}

function nodeObject(number: number): object {
  const name = `elsewhere-${String(number)}`;
  const owner = { apiVersion: 'v1', kind: 'Node', name, uid: uidOf(name) };
  return {
    apiVersion: API_VERSION,
    kind: NETPLUG_NODE,
    metadata: { name, uid: uidOf(name), resourceVersion: '1', ownerReferences: [owner] },
    spec: { addresses: [{ address: `10.0.${String(number >> 8)}.${String(number & 255)}`, type: 'InternalIP' }] },
  };
}

function withVersion({ metadata, ...object }: { readonly metadata: object }): object {
  return { ...object, metadata: { ...metadata, uid: 'u', resourceVersion: '1' } };
}

function uidOf(name: string): string {
  const hex = createHash('sha256').update(name).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-');
}
