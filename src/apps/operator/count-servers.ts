import { ownValue } from '../../base/own-value.ts';
import { TYPHA } from '../../model/typha.ts';
import { TYPHA_TOLERATIONS } from '../../install/cluster/typha-deployment.ts';
import type { NodeState } from '../../kube/status/node-state.ts';
import { isTolerated } from '../../kube/status/toleration.ts';
import type { InstallationSpec } from '../../model/installation.ts';

/** Agents of one server: half of what one can serve, so that another one may be missing. */
const NODES_PER_SERVER = 500;
const LEAST = 2;
/** Nodes, in percent of those there are, that must be missing for one server less. */
const ROOM_PERCENT = 10;
/** Time for which a number must be wanted before it is made: nodes of an autoscaler come and go. */
const STEADY_MS = 10 * 60_000;
/** Kubernetes gives every pod a toleration of it. */
const OF_EVERY_POD = 'node.kubernetes.io/not-ready=:NoExecute';

/** The number of servers, and the change of it that has been wanted for a while. */
export interface ServerCount {
  readonly replicas: number;
  readonly change?: { readonly to: number; readonly sinceMs: number };
}

/** Facts on which the number of servers depends. */
export interface ServerDemand {
  /** Nodes that are not cordoned. */
  readonly nodes: number;
  /** Those of them that can run a server. */
  readonly able: number;
  /** The number that the user has fixed. */
  readonly fixed: number | undefined;
}

type Node = Pick<NodeState, 'isSchedulable' | 'os' | 'labels' | 'taints'>;

/** Returns what the nodes of the cluster make of the spec. Pure. */
export function serverDemand(nodes: readonly Node[], typha: NonNullable<InstallationSpec['typha']>): ServerDemand {
  const { replicas, tolerations = TYPHA_TOLERATIONS, nodeSelector = {} } = typha;
  const open = nodes.filter(({ isSchedulable, os }) => isSchedulable && os === 'linux');
  const able = open.filter(
    ({ labels, taints }) =>
      Object.entries(nodeSelector).every(([key, value]) => ownValue(labels, key) === value) &&
      taints.filter(isRepelling).every((taint) => tolerations.some((toleration) => isTolerated(taint, toleration))),
  );
  return { nodes: open.length, able: able.length, fixed: replicas };
}

function isRepelling(taint: string): boolean {
  return taint !== OF_EVERY_POD && !taint.endsWith(':PreferNoSchedule');
}

/** Returns the number of servers that so many nodes need: one more than that, so that one may be missing. */
export function serversFor(nodes: number): number {
  return Math.max(LEAST, Math.ceil(nodes / NODES_PER_SERVER) + 1);
}

/**
 * Returns the number of servers from now on, after the one before: undefined where there are none yet. A number that the user has
 * fixed is made at once; any other when it has been the same for ten minutes, and one less only with room. Pure.
 */
export function countServers(before: ServerCount | undefined, demand: ServerDemand, nowMs: number): ServerCount {
  const { nodes, able, fixed } = demand;
  // Each server needs a node of its own.
  const most = Math.max(1, able);
  if (fixed !== undefined && fixed <= most) return { replicas: fixed };
  const more = Math.min(fixed ?? serversFor(nodes), most);
  if (before === undefined) return { replicas: more };
  const { replicas, change } = before;
  const fewer = Math.min(fixed ?? serversFor(Math.ceil((nodes * (100 + ROOM_PERCENT)) / 100)), most);
  const to = more > replicas ? more : Math.min(fewer, replicas);
  if (to === replicas) return { replicas };
  if (change?.to !== to) return { replicas, change: { to, sinceMs: nowMs } };
  return nowMs - change.sinceMs >= STEADY_MS ? { replicas: to } : before;
}

/** Returns why there are fewer servers than wanted; undefined where there are enough. Pure. */
export function serverShortage({ nodes, able, fixed }: ServerDemand): string | undefined {
  const wanted = fixed ?? serversFor(nodes);
  if (able >= wanted) return undefined;
  return `${TYPHA} has room for ${String(able)} of ${String(wanted)} servers: each needs a node of its own that is not cordoned, and whose labels and taints fit spec.typha`;
}
