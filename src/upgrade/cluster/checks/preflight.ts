import { type Check, type Finding, judgeAll } from '../../../checks/check.ts';
import {
  admissionChecks,
  LOST_RIGHTS_CHECK,
  NODE_REQUIREMENTS,
  SERVER_CHECKS,
  WEBHOOK_CHECK,
} from '../../../checks/cluster-checks.ts';
import { MESH_CHECKS } from '../../../checks/mesh-checks.ts';
import { agentNodes } from '../agent-nodes.ts';
import { detectInstallation } from '../detect-installation.ts';
import type { ClusterSnapshot } from '../snapshot.ts';
import type { UpgradeTarget } from '../target.ts';
import { COMPONENT_CHECKS } from './component-checks.ts';
import { RECORD_CHECKS } from './datastore-checks.ts';
import type { HazardFacts } from './hazard-facts.ts';
import { NODE_CHECKS } from './node-checks.ts';

/** Every check, in the order in which hazards are shown. */
export const PREFLIGHT_CHECKS: readonly Check<HazardFacts>[] = [
  ...SERVER_CHECKS,
  WEBHOOK_CHECK,
  LOST_RIGHTS_CHECK,
  ...NODE_REQUIREMENTS,
  ...NODE_CHECKS,
  ...admissionChecks<HazardFacts>(({ target }) =>
    target.stages.some(({ stage, objects }) => stage === 'admission' && objects.length > 0),
  ),
  ...COMPONENT_CHECKS,
  ...RECORD_CHECKS,
  ...MESH_CHECKS,
];

/** Runs all checks on a snapshot. Pure. @throws upgrade/not-installed */
export function findHazards(snapshot: ClusterSnapshot, target: UpgradeTarget): readonly Finding[] {
  const installed = detectInstallation(snapshot);
  return judgeAll(
    PREFLIGHT_CHECKS,
    { ...snapshot, nodes: agentNodes(snapshot), snapshot, target, installed },
    snapshot.unread,
  );
}

/** Returns the ids of the checks whose errors are not accepted. */
export function blockingChecks(hazards: readonly Finding[], accepted: readonly string[]): readonly string[] {
  const open = hazards.filter(({ id, severity }) => severity === 'error' && !accepted.includes(id));
  return [...new Set(open.map(({ id }) => id))];
}
