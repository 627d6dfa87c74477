import type { Manifest } from '../../model/manifest.ts';
import type { ObjectStage } from '../../install/cluster/cluster-objects.ts';
import type { Plan } from '../../plans/plan.ts';

/** An object by its kind and name. */
export interface StepObject {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}

/** What a step does. */
export type UpgradeAction =
  | { readonly act: 'back-up' }
  | { readonly act: 'prepare-host-endpoints' }
  | { readonly act: 'pass-release-on'; readonly object: StepObject; readonly namespace: string }
  | { readonly act: 'apply'; readonly stage: ObjectStage['stage'] | 'operator'; readonly objects: readonly Manifest[] }
  | {
      readonly act: 'chart';
      readonly verb: 'install' | 'upgrade';
      readonly release: string;
      readonly namespace: string;
    }
  | { readonly act: 'prune'; readonly objects: readonly StepObject[] }
  /** Keeps the operator from replacing agents by itself. */
  | { readonly act: 'hold-agents' }
  /** The first node that gets the new agent; its network is verified before other nodes follow, which who applies the DaemonSet holds. */
  | {
      readonly act: 'canary';
      readonly node: string;
      readonly agent: Manifest;
      readonly heldBy: 'tool' | 'operator';
    }
  | { readonly act: 'roll-out'; readonly agent: Manifest }
  | { readonly act: 'await-operator'; readonly release: string }
  | { readonly act: 'verify' }
  | { readonly act: 'delete-records'; readonly records: readonly string[]; readonly namespace: string }
  | { readonly act: 'restart'; readonly workload: StepObject };

/** What a user should know of a step before it is carried out. */
export interface StepFacts {
  /** Stable: a user can name it. */
  readonly id: string;
  /** Whether the snapshot shows that it is done. */
  readonly isDone: boolean;
  /** Whether it is carried out only when asked for. */
  readonly isOptional?: true;
  /** What a person would type instead. */
  readonly commands: readonly string[];
  /** What does not work meanwhile, and for how long. */
  readonly downtime: string;
}

export type UpgradeStepData = UpgradeAction & StepFacts;
export type UpgradePlan = Plan<UpgradeStepData>;
