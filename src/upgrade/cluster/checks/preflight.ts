import { detectInstallation } from '../detect-installation.ts';
import type { ClusterSnapshot } from '../snapshot.ts';
import type { UpgradeTarget } from '../target.ts';
import type { FoundHazard, PreflightCheck } from './check.ts';
import { COMPONENT_CHECKS } from './component-checks.ts';
import { RECORD_CHECKS } from './datastore-checks.ts';
import { NODE_CHECKS } from './node-checks.ts';

/** Every check, in the order in which hazards are shown. */
export const PREFLIGHT_CHECKS: readonly PreflightCheck[] = [...NODE_CHECKS, ...COMPONENT_CHECKS, ...RECORD_CHECKS];

/** Runs all checks on a snapshot. Pure. @throws upgrade/not-installed */
export function runPreflight(snapshot: ClusterSnapshot, target: UpgradeTarget): readonly FoundHazard[] {
  const facts = { snapshot, target, installed: detectInstallation(snapshot) };
  return PREFLIGHT_CHECKS.flatMap(({ judge, ...check }) => judge(facts).map((hazard) => ({ ...check, ...hazard })));
}

/** Reports whether the upgrade is refused. */
export function isBlocked(hazards: readonly FoundHazard[]): boolean {
  return hazards.some(({ severity }) => severity === 'block');
}

/** Returns the ids of the checks whose blocking hazards are not accepted. */
export function blockingChecks(hazards: readonly FoundHazard[], accepted: readonly string[]): readonly string[] {
  const open = hazards.filter(({ id, severity }) => severity === 'block' && !accepted.includes(id));
  return [...new Set(open.map(({ id }) => id))];
}
