import type { ClusterFacts } from '../../../checks/cluster-facts.ts';
import { SYSTEM_NAMESPACE } from '../../../install/cluster/names.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { LEASES, NAMESPACES, NODES, PODS, SERVICES } from '../../../kube/paths.ts';
import { recordIn } from '../../../upgrade/cluster/objects-in.ts';
import { readMeshFacts } from '../mesh/read-mesh-facts.ts';
import { findMissingRights, type NeededRight } from './missing-rights.ts';
import { nodeStateOf } from '../../../kube/status/node-state.ts';
import type { Attempts } from './attempts.ts';
import { readLostRights } from './read-lost-rights.ts';
import { NOTHING_REFUSED, readRefusals } from './read-refusals.ts';
import { askedWebhooks, type ServedBy } from './asked-webhooks.ts';

const NODE_LEASES = { ...LEASES, namespace: 'kube-node-lease' } as const;
const HOOKS = ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'] as const;

/** Reads what checks of any cluster need. What cannot be read is in `attempts`. @throws store/* without an API server */
export async function readClusterFacts(
  api: OrchApi,
  { rights, attempts }: { readonly rights: readonly NeededRight[]; readonly attempts: Attempts },
  signal: AbortSignal,
): Promise<Omit<ClusterFacts, 'unread'>> {
  const [kubernetes, nodes, leases, webhooks, missingRights, admission, lostRights, meshState] = await Promise.all([
    api.serverVersion(signal),
    attempts.read('nodes', [], async () => api.list(NODES, {}, signal)),
    attempts.read('clocks', [], async () => api.list(NODE_LEASES, {}, signal)),
    attempts.read('webhooks', [], async () => readWebhooks(api, signal)),
    attempts.read('rights', [], async () => findMissingRights(api, rights, signal)),
    attempts.read('admission', NOTHING_REFUSED, async () => readRefusals(api, signal)),
    attempts.read('bindings', [], async () => readLostRights(api, signal)),
    attempts.read('mesh', undefined, async () => readMeshFacts(api, { ifUnused: 'omit' }, signal)),
  ]);
  const leaseOf = new Map(leases.map((lease) => [lease.metadata.name, lease]));
  return {
    kubernetes,
    nodes: nodes.map((node) => nodeStateOf(node, leaseOf.get(node.metadata.name))),
    webhooks,
    missingRights,
    lostRights,
    ...admission,
    ...(meshState === undefined ? {} : { meshState }),
  };
}

async function readWebhooks(api: OrchApi, signal: AbortSignal): Promise<ClusterFacts['webhooks']> {
  const namespace = await api.get(NAMESPACES, SYSTEM_NAMESPACE, signal);
  const labels = namespace.outcome === 'ok' ? (namespace.value.metadata.labels ?? undefined) : undefined;
  const lists = await Promise.all(
    HOOKS.map(async (plural) => api.list({ group: 'admissionregistration.k8s.io', version: 'v1', plural }, {}, signal)),
  );
  return Promise.all(
    askedWebhooks(lists.flat(), labels).map(async ({ service, ...hook }) => ({
      ...hook,
      isBehindPodNetwork: service !== undefined && (await isBehindPods(api, service, signal)),
    })),
  );
}

/** A server on the network of its node answers without the network of pods. */
async function isBehindPods(api: OrchApi, { name, namespace }: ServedBy, signal: AbortSignal): Promise<boolean> {
  const answer = await api.get({ ...SERVICES, namespace }, name, signal);
  const selector = answer.outcome === 'ok' ? Object.entries(recordIn(recordIn(answer.value, 'spec'), 'selector')) : [];
  if (selector.length === 0) return true;
  const labelSelector = selector.map(([key, value]) => `${key}=${String(value)}`).join(',');
  const pods = await api.list({ ...PODS, namespace }, { labelSelector }, signal);
  return pods.length === 0 || pods.some((pod) => recordIn(pod, 'spec')['hostNetwork'] !== true);
}
