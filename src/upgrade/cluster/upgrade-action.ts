import type { Manifest } from '../../model/manifest.ts';
import type { ObjectStage } from '../../install/cluster/cluster-objects.ts';
import type { ObjectReference } from '../../kube/objects/reference.ts';
import type { Plan } from '../../plans/plan.ts';

/** Action of a step. */
export type UpgradeAction =
  | { readonly act: 'back-up' }
  | { readonly act: 'prepare-host-endpoints'; readonly endpoints: number }
  | {
      readonly act: 'pass-release-on';
      readonly object: ObjectReference;
      readonly namespace: string;
      /** Reason why nothing is to be done. */
      readonly skipped?: string;
    }
  | { readonly act: 'apply'; readonly stage: ObjectStage['stage'] | 'operator'; readonly objects: readonly Manifest[] }
  | {
      readonly act: 'chart';
      readonly verb: 'install' | 'upgrade';
      readonly release: string;
      readonly namespace: string;
    }
  | { readonly act: 'prune'; readonly objects: readonly ObjectReference[]; readonly why: string }
  /** Keeps the operator from replacing agents by itself. */
  | { readonly act: 'hold-agents' }
  /** The first node that gets the new agent; its network is verified before other nodes follow, which who applies the DaemonSet holds. */
  | {
      readonly act: 'canary';
      readonly node: string;
      readonly agent: Manifest;
      readonly heldBy: 'tool' | 'operator';
    }
  | { readonly act: 'roll-out'; readonly agent: Manifest; readonly nodes: number }
  | { readonly act: 'await-operator'; readonly release: string }
  | { readonly act: 'verify' }
  | {
      readonly act: 'delete-records';
      readonly objects: readonly ObjectReference[];
      readonly release: string;
      readonly namespace: string;
    }
  | RestartAction;

/** Restarts a workload whose sidecar has that release. */
export interface RestartAction {
  readonly act: 'restart';
  readonly workload: ObjectReference;
  readonly sidecar: string;
}

/** Facts that a user should know of a step before it is carried out. */
export interface StepFacts {
  /** Stable: a user can name it. */
  readonly id: string;
  /** Whether the snapshot shows that it is done. */
  readonly isDone: boolean;
  /** Whether it is carried out only when asked for. */
  readonly isOptional?: true;
  /** Commands that a person would type instead. */
  readonly commands: readonly string[];
  /** Outage during the step, and its length. */
  readonly downtime: string;
}

export type UpgradeStepData = UpgradeAction & StepFacts;
export type UpgradePlan = Plan<UpgradeStepData>;
