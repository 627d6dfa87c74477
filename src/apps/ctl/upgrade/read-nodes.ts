import { isLeaving } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { FLOW_PODS, PROBE_PODS } from '../../../install/cluster/probe-objects.ts';
import { podState, type PodState } from '../../../kube/status/pod-state.ts';
import { SYSTEM_PODS } from '../cluster/node-pods.ts';

const PROBES: readonly string[] = [...PROBE_PODS, ...FLOW_PODS];

/** Reads the pods of netplug, without those that probe the network: they are of no release that is installed. @throws store/* */
export async function readPods(api: OrchApi, signal: AbortSignal): Promise<readonly PodState[]> {
  const pods = await api.list(SYSTEM_PODS, { labelSelector: 'app.kubernetes.io/part-of=netplug' }, signal);
  return pods
    .filter((pod) => !isLeaving(pod))
    .map(podState)
    .filter(({ component }) => !PROBES.includes(component));
}
