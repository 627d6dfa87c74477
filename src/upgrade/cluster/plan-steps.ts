import type { Manifest } from '../../model/manifest.ts';
import type { Stage, Step, WriteStep } from '../../plans/plan.ts';
import { OPERATOR_NAME } from './detect-installation.ts';
import { objectName } from '../../kube/objects/reference.ts';
import { metadataIn } from './objects-in.ts';
import type { ClusterSnapshot, DetectedInstallation } from './snapshot.ts';
import type { UpgradeTarget } from './target.ts';
import type { StepObject, StepFacts, UpgradeAction, UpgradeStepData } from './upgrade-action.ts';

export const NO_DOWNTIME = 'none';

export type UpgradeStage = Stage<UpgradeStepData>;

export interface PlanFacts {
  readonly snapshot: ClusterSnapshot;
  readonly target: UpgradeTarget;
  readonly installed: DetectedInstallation;
  /** Whether every component and every pod has the target's release already. */
  readonly isDone: boolean;
}

export function applyStep(
  stage: (UpgradeAction & { readonly act: 'apply' })['stage'],
  objects: readonly Manifest[],
  { isDone, commands }: Pick<StepFacts, 'isDone' | 'commands'>,
): Step<UpgradeStepData> {
  return writeStep(`apply ${TITLES[stage]}: ${listed(objects)}`, {
    act: 'apply',
    stage,
    objects,
    id: `apply-${stage}`,
    isDone,
    commands,
    downtime: NO_DOWNTIME,
  });
}

const TITLES: Readonly<Record<(UpgradeAction & { readonly act: 'apply' })['stage'], string>> = {
  definitions: 'the CustomResourceDefinitions',
  rights: 'accounts and rights',
  configuration: 'the configuration',
  controllers: 'the controllers',
  nodes: 'other programs of nodes',
  operator: 'the operator',
};

/** Names up to three objects. */
function listed(objects: readonly Manifest[]): string {
  const names = objects.map(objectName);
  const more = names.length - 3;
  return more > 0 ? `${names.slice(0, 3).join(', ')} and ${String(more)} more` : names.join(', ');
}

export function writeStep(text: string, data: UpgradeStepData): WriteStep<UpgradeStepData> {
  return { kind: 'write', text, ...data };
}

export function pruneSteps(
  { snapshot, isDone }: PlanFacts,
  wanted: readonly Manifest[],
  isOurs: (object: Manifest) => boolean,
): readonly Step<UpgradeStepData>[] {
  const names = new Set(wanted.map(objectName));
  const left = snapshot.objects.filter((object) => isOurs(object) && !names.has(objectName(object)) && !isKept(object));
  if (left.length === 0) return [];
  const references = left.map(referenceTo);
  return [
    writeStep(`remove ${left.map(objectName).join(', ')}, which the release does not have`, {
      act: 'prune',
      objects: references,
      id: 'prune',
      isDone,
      commands: references.map(
        ({ kind, name, namespace }) =>
          `kubectl delete ${kind.toLowerCase()} ${name}${namespace === undefined ? '' : ` -n ${namespace}`}`,
      ),
      downtime: NO_DOWNTIME,
    }),
  ];
}

function referenceTo(object: Manifest): StepObject {
  const { name, namespace } = metadataIn(object);
  return { kind: String(object['kind']), name, ...(namespace === undefined ? {} : { namespace }) };
}

/** Users' data goes with these. */
function isKept(object: Manifest): boolean {
  return ['CustomResourceDefinition', 'Namespace', 'IPPool', 'Installation', 'Secret'].includes(String(object['kind']));
}

export function isOperators(object: Manifest): boolean {
  return metadataIn(object).labels['app.kubernetes.io/name'] === OPERATOR_NAME;
}
