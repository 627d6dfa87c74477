import { visibleText } from '../../base/visible-text.ts';
import { objectName } from '../../kube/objects/reference.ts';
import type { DetectedInstallation } from './snapshot.ts';
import type { UpgradeTarget } from './target.ts';
import type { UpgradePlan, UpgradeStepData } from './upgrade-action.ts';

const METHOD_NAMES = {
  operator: 'by the operator',
  chart: 'by the chart',
  manifest: 'by manifest',
} as const;

/** Renders a plan with every step, also those that are done: what it does, to which objects, by which commands, and what cannot be undone. */
export function renderUpgradePlan(plan: UpgradePlan, installed: DetectedInstallation, target: UpgradeTarget): string {
  const { method, variant, datastore, from = 'an unknown release' } = installed;
  const store = datastore === 'orch' ? 'the API of the orchestrator' : 'etcd';
  const head = [
    `Upgrade from ${from} to ${target.release}: installed ${METHOD_NAMES[method]}, ${variant}, records in ${store}`,
    ...plan.notes.map((note) => `note: ${visibleText(note)}`),
  ];
  const stages = plan.stages
    .filter(({ steps }) => steps.length > 0)
    .flatMap(({ title, steps }, index) => [
      '',
      `${String(index + 1)}. ${title}`,
      ...steps.flatMap((step) => (step.kind === 'wait' ? [`   wait: ${visibleText(step.text)}`] : stepLines(step))),
    ]);
  return [...head, ...stages, ''].join('\n');
}

function stepLines(step: UpgradeStepData & { readonly text: string; readonly kind: string }): readonly string[] {
  const state = step.isDone
    ? 'done'
    : step.isOptional === true
      ? 'optional'
      : step.kind === 'command'
        ? 'by you'
        : 'to do';
  const objects = step.act === 'apply' && step.objects.length > 3 ? step.objects.map(objectName) : [];
  return [
    `   [${state}] ${step.id}: ${visibleText(step.text)}`,
    ...(objects.length === 0 ? [] : [`        objects: ${visibleText(objects.join(', '))}`]),
    ...step.commands.map((command) => `        $ ${visibleText(command)}`),
    ...(step.downtime === 'none' ? [] : [`        downtime: ${step.downtime}`]),
    ...(cannotBeUndone(step) === undefined ? [] : [`        cannot be undone: ${String(cannotBeUndone(step))}`]),
  ];
}

/** Returns why a step cannot be undone; undefined for one that can. */
export function cannotBeUndone(step: UpgradeStepData): string | undefined {
  if (step.act === 'delete-records') return 'the records are in the backup only';
  const isDefinitions = step.act === 'apply' && step.stage === 'definitions';
  return isDefinitions ? 'CRDs stay, because older releases ignore new fields' : undefined;
}

/** Returns the installation for JSON, without the values of the chart, in which users may keep secrets. */
export function shownInstallation({ chart, ...installed }: DetectedInstallation): object {
  if (chart === undefined) return installed;
  const { values: _, ...shown } = chart;
  return { ...installed, chart: shown };
}
