import type { Manifest } from '../../model/manifest.ts';
import type { Stage, Step, WriteStep } from '../../plans/plan.ts';
import { objectName, referenceOf } from '../../kube/objects/reference.ts';
import { metadataIn } from './objects-in.ts';
import type { ClusterSnapshot, DetectedInstallation } from './snapshot.ts';
import type { UpgradeTarget } from './target.ts';
import type { StepFacts, UpgradeAction, UpgradeStepData } from './upgrade-action.ts';
import { OPERATOR } from '../../install/cluster/names.ts';

const NO_DOWNTIME = 'none';

export type UpgradeStage = Stage<UpgradeStepData>;

/** Returns what an act does, for the user. */
export type TextOf = (action: UpgradeAction) => string;

export interface PlanFacts {
  readonly snapshot: ClusterSnapshot;
  readonly target: UpgradeTarget;
  readonly installed: DetectedInstallation;
  /** Whether every component and every pod has the target's release already. */
  readonly isDone: boolean;
  readonly textOf: TextOf;
}

/** Returns a step that this program carries out. It is done with the upgrade, and without downtime, unless the caller says otherwise. */
export function writeStep(
  { isDone, textOf }: PlanFacts,
  data: UpgradeAction & Pick<StepFacts, 'id' | 'commands'> & Partial<StepFacts>,
): WriteStep<UpgradeStepData> {
  return { isDone, downtime: NO_DOWNTIME, ...data, kind: 'write', text: textOf(data) };
}

/** Returns a step that a user carries out with the command. */
export function commandStep(
  text: string,
  command: readonly string[],
  facts: Pick<StepFacts, 'id'> & Partial<StepFacts>,
): Step<UpgradeStepData> {
  const data = { act: 'verify', isDone: false, downtime: NO_DOWNTIME, commands: [command.join(' ')] } as const;
  return { ...data, ...facts, kind: 'command', text, command };
}

export function applyStep(
  facts: PlanFacts,
  { stage, objects }: Pick<UpgradeAction & { readonly act: 'apply' }, 'stage' | 'objects'>,
  commands: readonly string[],
): Step<UpgradeStepData> {
  return writeStep(facts, { act: 'apply', stage, objects, id: `apply-${stage}`, commands });
}

export function pruneSteps(
  facts: PlanFacts,
  wanted: readonly Manifest[],
  isOurs: (object: Manifest) => boolean,
): readonly Step<UpgradeStepData>[] {
  const names = new Set(wanted.map(objectName));
  const objects = facts.snapshot.objects
    .filter((object) => isOurs(object) && !names.has(objectName(object)) && !isKept(object))
    .map(referenceOf);
  if (objects.length === 0) return [];
  const commands = objects.map(
    ({ kind, name, namespace }) =>
      `kubectl delete ${kind.toLowerCase()} ${name}${namespace === '' ? '' : ` -n ${namespace}`}`,
  );
  return [writeStep(facts, { act: 'prune', objects, why: 'which the release does not have', id: 'prune', commands })];
}

/** Users' data goes with these. */
function isKept(object: Manifest): boolean {
  return ['CustomResourceDefinition', 'Namespace', 'IPPool', 'Installation', 'Secret'].includes(String(object['kind']));
}

export function isOperators(object: Manifest): boolean {
  return metadataIn(object).labels['app.kubernetes.io/name'] === OPERATOR;
}
