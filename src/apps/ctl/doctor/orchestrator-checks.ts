import { reasonOf } from '../../../base/errors.ts';
import { type Check, faultOf } from '../../../checks/check.ts';
import { PROXY_CHECK } from '../../../checks/cluster-checks.ts';
import { AGENT_SET } from '../../../install/cluster/names.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import { findCondition, isConditionTrue } from '../../../kube/status/conditions.ts';
import { type NodeState, readNodes } from '../../../kube/status/node-state.ts';
import { podState } from '../../../kube/status/pod-state.ts';
import { SYSTEM_PODS } from '../cluster/node-pods.ts';
import { readProxyMode } from '../cluster/read-proxy-mode.ts';
import { findApiAccess, isStoreFailure, type Sources } from './sources.ts';
import { topic } from './topic.ts';

/** Time after which a runtime has loaded a conflist that is there. */
const LOADED_MS = 60_000;
/** What the kubelet says while the runtime has loaded no network configuration. */
const PLUGIN_NOT_LOADED = /cni plugin not initialized|NetworkPluginNotReady/i;

export interface OrchestratorFacts {
  readonly proxyMode: string | undefined;
  /** Nodes that wait for a network plugin, although their agent has been ready for a minute. */
  readonly waiting: readonly string[];
  /** Reason why the cluster is not known. */
  readonly unknown: string | undefined;
}

export const ORCHESTRATOR_CHECKS: readonly Check<OrchestratorFacts>[] = [
  {
    id: 'cluster/plugin-not-loaded',
    severity: 'error',
    expected: 'nodes whose runtime has loaded the conflist, a minute after their agent is ready',
    remedy:
      'Run "netplugctl doctor --node" on the node, which compares the folders with those of containerd, and set spec.cni.confDir and spec.cni.binDir of the Installation (docs/install.md)',
    judge: ({ waiting }) =>
      faultOf(
        waiting.map((name) => `Node ${name}`),
        'the conflist is installed, but the kubelet still says that no network plugin is initialized: the runtime reads another folder, or cannot load what it finds there',
      ),
  },
  PROXY_CHECK,
];

export const ORCHESTRATOR = topic({
  area: 'cluster',
  scope: 'cluster',
  gather: gatherOrchestrator,
  measure: ({ unknown, proxyMode }) => [
    ...(proxyMode === undefined ? [] : [`kube-proxy ${proxyMode}`]),
    ...(unknown === undefined ? [] : [`not known: ${unknown}`]),
  ],
  checks: ORCHESTRATOR_CHECKS,
});

async function gatherOrchestrator(sources: Sources, signal: AbortSignal): Promise<OrchestratorFacts> {
  const access = await findApiAccess(sources);
  // With records in etcd there may be no Kubernetes at all.
  if ('why' in access) return { proxyMode: undefined, waiting: [], unknown: undefined };
  await using api = sources.context.ports.openApi(access);
  try {
    const [proxyMode, nodes, pods] = await Promise.all([
      readProxyMode(api, signal),
      readNodes(api, signal),
      api.list(SYSTEM_PODS, { labelSelector: `app.kubernetes.io/name=${AGENT_SET}` }, signal),
    ]);
    const waiting = waitingNodes({ nodes, agents: pods }, sources.context.ports.clock.now());
    return { proxyMode, waiting, unknown: undefined };
  } catch (cause) {
    if (isStoreFailure(cause)) return { proxyMode: undefined, waiting: [], unknown: reasonOf(cause) };
    throw cause;
  }
}

/** Returns the nodes that wait for a network plugin, although their agent has been ready for a minute. */
export function waitingNodes(
  { nodes, agents }: { readonly nodes: readonly NodeState[]; readonly agents: readonly ApiObject[] },
  now: number,
): readonly string[] {
  const served = new Set(agents.filter((pod) => isReadySince(pod, now - LOADED_MS)).map((pod) => podState(pod).node));
  return nodes
    .filter(({ name, notReady = '' }) => served.has(name) && PLUGIN_NOT_LOADED.test(notReady))
    .map(({ name }) => name);
}

/** An agent is ready once its conflist is installed. */
function isReadySince(pod: unknown, beforeMs: number): boolean {
  return isConditionTrue(pod, 'Ready') && Date.parse(findCondition(pod, 'Ready')?.lastTransitionTime ?? '') < beforeMs;
}
