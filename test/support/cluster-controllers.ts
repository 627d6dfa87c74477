// The controllers in a cluster, as a Deployment of two replicas.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Cluster } from './cluster.ts';
import { makeImage } from './image.ts';
import { BUILT } from './built.ts';

export const CONTROLLERS_NAMESPACE = 'netplug-system';
export const CONTROLLERS_LABEL = 'app.kubernetes.io/name=netplug-orch-controllers';

const NAME = 'netplug-orch-controllers';
const PROGRAM = join(BUILT, NAME);
const IMAGE = 'netplug.test/netplug:1';
const LABELS = { 'app.kubernetes.io/name': NAME };
const REPLICAS = 2;
const PORT = 9094;

/** Imports the image on every node, and returns when the replicas of the Deployment are ready: two, or one on a single node. */
export async function startControllers(
  cluster: Pick<Cluster, 'nodes' | 'apply' | 'waitForPodsReady' | 'etcdUrl'>,
  datastore: 'orch' | 'kv',
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'netplug-controllers-'));
  try {
    const image = { names: [IMAGE], config: { Entrypoint: [`/${NAME}`] }, files: { [`/${NAME}`]: PROGRAM } };
    const archive = await makeImage(join(folder, 'image'), image);
    await Promise.all(cluster.nodes.map(async ({ containerd }) => containerd.importImage(archive)));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  const kv = { DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: cluster.etcdUrl };
  const count = Math.min(REPLICAS, cluster.nodes.length);
  await cluster.apply([deployment(count, datastore === 'kv' ? kv : { DATASTORE_TYPE: 'orch' })]);
  await cluster.waitForPodsReady({ namespace: CONTROLLERS_NAMESPACE, selector: CONTROLLERS_LABEL, count });
}

/**
 * On the network of the nodes, so that addresses can be reclaimed when pods get none any more. Its ports are those of a node, so
 * each replica needs a node of its own.
 */
function deployment(replicas: number, env: Readonly<Record<string, string>>): object {
  const probe = (path: string, periodSeconds: number): object => ({
    httpGet: { path, port: PORT, host: '127.0.0.1' },
    periodSeconds,
  });
  const container = {
    name: NAME,
    image: IMAGE,
    env: [
      { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
      ...Object.entries(env).map(([name, value]) => ({ name, value })),
    ],
    readinessProbe: probe('/readyz', 2),
    livenessProbe: probe('/healthz', 10),
  };
  const apart = { labelSelector: { matchLabels: LABELS }, topologyKey: 'kubernetes.io/hostname' };
  const pod = {
    serviceAccountName: NAME,
    hostNetwork: true,
    priorityClassName: 'system-cluster-critical',
    tolerations: [{ operator: 'Exists' }],
    affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [apart] } },
    containers: [container],
  };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: NAME, namespace: CONTROLLERS_NAMESPACE, labels: LABELS },
    spec: {
      replicas,
      strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } },
      selector: { matchLabels: LABELS },
      template: { metadata: { labels: LABELS }, spec: pod },
    },
  };
}
