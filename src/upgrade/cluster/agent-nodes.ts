import { ownValue } from '../../base/own-value.ts';
import type { Manifest } from '../../model/manifest.ts';
import { AGENT_SET } from '../../install/cluster/names.ts';
import { isRecord } from '../../model/read-schema.ts';
import { fitsAffinity } from './node-affinity.ts';
import { findNamed, podSpecIn, recordIn } from './objects-in.ts';
import { isTolerated } from '../../kube/status/toleration.ts';
import type { NodeState } from '../../kube/status/node-state.ts';
import type { ClusterSnapshot } from './snapshot.ts';

/** Nodes with these taints get pods of every DaemonSet, which Kubernetes makes tolerate them. */
const OF_THE_SYSTEM = 'node.kubernetes.io/';

/** Returns the nodes on which the DaemonSet of the agent runs pods. A user may keep it off others by selector, affinity or taint. */
export function agentNodes({ nodes, objects }: Pick<ClusterSnapshot, 'nodes' | 'objects'>): readonly NodeState[] {
  const agent = findNamed(objects, 'DaemonSet', AGENT_SET);
  return agent === undefined ? nodes : nodes.filter((node) => runsOn(agent, node));
}

/** Returns the nodes that are ready, in the order in which they are chosen to try something: one that is cordoned may be about to go down. */
export function triedFirst(nodes: readonly NodeState[]): readonly NodeState[] {
  return nodes.filter(({ isReady }) => isReady).toSorted((a, b) => Number(b.isSchedulable) - Number(a.isSchedulable));
}

/** Reports whether a DaemonSet has a pod on the node. */
export function runsOn(
  workload: Manifest,
  { name, taints, ...node }: Pick<NodeState, 'name' | 'labels' | 'taints'>,
): boolean {
  // Every node that is read runs Linux, whether or not its kubelet has said so.
  const labels: NodeState['labels'] = { ...node.labels, 'kubernetes.io/os': 'linux' };
  const pod = podSpecIn(workload);
  const selector = Object.entries(recordIn(pod, 'nodeSelector'));
  const tolerations = Array.isArray(pod['tolerations']) ? pod['tolerations'].filter(isRecord) : [];
  return (
    selector.every(([key, value]) => ownValue(labels, key) === value) &&
    fitsAffinity(pod, { name, labels }) &&
    taints.every((taint) => tolerations.some((toleration) => isTolerated(taint, toleration)) || !isRepelling(taint))
  );
}

function isRepelling(taint: string): boolean {
  return !taint.startsWith(OF_THE_SYSTEM) && !taint.endsWith(':PreferNoSchedule');
}
