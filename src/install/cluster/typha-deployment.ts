import type { Manifest } from '../../model/manifest.ts';
import { SYSTEM_NAMESPACE, TYPHA_PORTS } from './names.ts';
import { TYPHA } from '../../model/typha.ts';
import { fieldOf, metadataOf, selectorOf, variables } from './pod-template.ts';
import { programDeployment } from './replicated-deployment.ts';
import { type ClusterSettings, hasFanOut, usesPodCidrs } from './settings.ts';

/** Time in which a server that ends sends its clients to others. */
const DRAIN_SECONDS = 60;
/** Time after which the server of a node that does not answer is replaced. */
const UNREACHABLE_SECONDS = 60;

/**
 * Tolerations with which servers start before the network of a node works. Nodes that are about to go get none: a cordoned one has
 * the taint `unschedulable`.
 */
export const TYPHA_TOLERATIONS: readonly Manifest[] = [
  ...[
    'node.kubernetes.io/not-ready',
    'node.kubernetes.io/network-unavailable',
    'node.cloudprovider.kubernetes.io/uninitialized',
    'node-role.kubernetes.io/control-plane',
  ].map((key) => ({ key, operator: 'Exists', effect: 'NoSchedule' })),
  {
    key: 'node.kubernetes.io/unreachable',
    operator: 'Exists',
    effect: 'NoExecute',
    tolerationSeconds: UNREACHABLE_SECONDS,
  },
];

/** Returns the servers of the fan-out, and what keeps evictions from taking several at once; nothing where agents use none. */
export function typhaObjects(settings: ClusterSettings): readonly Manifest[] {
  return hasFanOut(settings) ? [disruptionBudget(settings), deployment(settings)] : [];
}

function disruptionBudget({ release }: ClusterSettings): Manifest {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: metadataOf(TYPHA, release),
    spec: { maxUnavailable: 1, selector: { matchLabels: selectorOf(TYPHA) } },
  };
}

/**
 * Returns the Deployment of the servers. A whole new set starts beside the old one, so that agents move once. Each server takes a
 * port of its node, which the scheduler knows: there is one for each node.
 */
function deployment(settings: ClusterSettings): Manifest {
  const { images, release, spec } = settings;
  const { mode: _, replicas = 1, ...override } = spec.typha;
  const zones = { labelSelector: { matchLabels: selectorOf(TYPHA) }, topologyKey: 'topology.kubernetes.io/zone' };
  const port = TYPHA_PORTS.clients;
  return programDeployment({
    name: TYPHA,
    release,
    image: images.tools,
    pullSecrets: images.pullSecrets,
    env: [
      fieldOf('POD_NAME', 'metadata.name'),
      fieldOf('POD_UID', 'metadata.uid'),
      fieldOf('HOST_IPS', 'status.hostIPs'),
      ...variables({
        NETPLUG_NAMESPACE: SYSTEM_NAMESPACE,
        NETPLUG_ORCHCONFIG: 'in-cluster',
        DATASTORE_TYPE: settings.datastore.type,
        NETPLUG_TYPHA_LISTEN: `[::]:${String(port)}`,
        NETPLUG_TYPHA_DRAIN_SECONDS: String(DRAIN_SECONDS),
        NETPLUG_HEALTH_ADDRESS: `127.0.0.1:${String(TYPHA_PORTS.health)}`,
        USE_POD_CIDR: usesPodCidrs(settings) ? 'true' : undefined,
      }),
    ],
    port: TYPHA_PORTS.health,
    replicas,
    override: {
      ...override,
      tolerations: override.tolerations ?? TYPHA_TOLERATIONS,
      // Another server takes its clients: it keeps no autoscaler from removing the node.
      annotations: { 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true', ...override.annotations },
    },
    container: { ports: [{ name: 'clients', containerPort: port, hostPort: port, protocol: 'TCP' }] },
    rollingUpdate: { maxSurge: '100%', maxUnavailable: 1 },
    pod: {
      affinity: {
        podAntiAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm: zones }],
        },
      },
      terminationGracePeriodSeconds: DRAIN_SECONDS,
    },
  });
}
