import type { UpgradeMethod } from '../cluster/snapshot.ts';

/** A cluster of a fleet, and what the user decides about its upgrade. */
export interface FleetCluster {
  /** Distinct in the fleet. */
  readonly name: string;
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
  /** File that names the datastore where it is etcd, as with `--config`. */
  readonly config: string | undefined;
  readonly method: UpgradeMethod | undefined;
  readonly registry: string | undefined;
  readonly like: string | undefined;
  readonly pristine: string | undefined;
  /** Checks whose hazards the user accepts. */
  readonly accept: readonly string[];
  /** Optional steps that are carried out. */
  readonly with: readonly string[];
  readonly proof: 'run' | 'skip';
}

/** Clusters that may be upgraded at the same time. */
export interface FleetWave {
  /** Distinct in the fleet. */
  readonly name: string;
  /** At most so many of its clusters are upgraded at once. */
  readonly atOnce: number;
  readonly clusters: readonly FleetCluster[];
}

/** Clusters in the order in which they are upgraded. */
export interface Fleet {
  readonly waves: readonly FleetWave[];
}

/**
 * Standing of a cluster. `verified`: it has the target, and its network was proved. `unverified`: it has the target without
 * that. `interrupted`: an upgrade from this machine goes on where it was, without a new preflight.
 */
export type ClusterStanding =
  | { readonly kind: 'verified' | 'unverified' | 'interrupted' }
  /** `blocking` are checks that found a blocking hazard which the user has not accepted. */
  | { readonly kind: 'behind'; readonly blocking: readonly string[] }
  | { readonly kind: 'unreadable'; readonly reason: string };

/** Outcome of a cluster. */
export type ClusterOutcome =
  | { readonly kind: 'skipped' | 'upgraded' }
  | { readonly kind: 'failed' | 'refused'; readonly reason: string }
  /** Its wave did not begin, or it did not begin because another cluster of its wave had failed. */
  | { readonly kind: 'not-begun' };

/** Whether the cluster has the target and was verified. */
export function isOver({ kind }: ClusterOutcome): boolean {
  return kind === 'skipped' || kind === 'upgraded';
}
