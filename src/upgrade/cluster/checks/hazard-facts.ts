import type { ClusterFacts } from '../../../checks/cluster-facts.ts';
import type { ClusterSnapshot, DetectedInstallation } from '../snapshot.ts';
import type { UpgradeTarget } from '../target.ts';

/** Facts that every check judges. `nodes` are those on which agents run; the snapshot has all. */
export interface HazardFacts extends ClusterFacts {
  readonly snapshot: ClusterSnapshot;
  readonly target: UpgradeTarget;
  readonly installed: DetectedInstallation;
}
