import type { ClusterSnapshot, DetectedInstallation } from '../snapshot.ts';
import type { UpgradeTarget } from '../target.ts';

/** `block`: the upgrade is refused. `warning`: a person decides. `note`: good to know. */
export type HazardSeverity = 'block' | 'warning' | 'note';

/** What every check judges. */
export interface HazardFacts {
  readonly snapshot: ClusterSnapshot;
  readonly target: UpgradeTarget;
  readonly installed: DetectedInstallation;
}

/** A hazard that was found. */
export interface Hazard {
  /** A clause that says what was found. */
  readonly found: string;
  /** The objects by name. */
  readonly evidence: readonly string[];
  readonly remedy: string;
}

export interface PreflightCheck {
  /** Stable, as `nodes/not-ready`. */
  readonly id: string;
  readonly severity: HazardSeverity;
  /** A noun phrase for the sound state. */
  readonly expected: string;
  readonly judge: (facts: HazardFacts) => readonly Hazard[];
}

export interface FoundHazard extends Hazard, Omit<PreflightCheck, 'judge'> {}

/** Returns one hazard for all the evidence, or none without evidence. */
export function hazardOf(evidence: readonly string[], found: string, remedy: string): readonly Hazard[] {
  return evidence.length === 0 ? [] : [{ found, evidence, remedy }];
}
