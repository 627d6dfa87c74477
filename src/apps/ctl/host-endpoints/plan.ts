import type { AnyResource } from '../../../model/kinds.ts';
import { resourceIdOf, showResourceId } from '../../../model/resource-id.ts';

/** What changes of one resource: one that appears has nothing before, one that goes has nothing after. */
export type Change =
  | { readonly before: undefined; readonly after: AnyResource }
  | { readonly before: AnyResource; readonly after: AnyResource }
  | { readonly before: AnyResource; readonly after: undefined };

export type Step =
  | WriteStep
  /** Somebody who may has to run the command. */
  | (Change & { readonly kind: 'command'; readonly text: string; readonly command: readonly string[] })
  /** It comes by itself, from another program. */
  | { readonly kind: 'wait'; readonly text: string };

/** netplug itself writes it. */
export type WriteStep = Change & { readonly kind: 'write'; readonly text: string };

/** Steps that may be taken in any order; the next stage begins when all of them are done. */
export interface Stage {
  readonly title: string;
  readonly steps: readonly Step[];
}

/** What is to be done, decided from what is there: planned again, it has the steps that are left. */
export interface Plan {
  /** Those without steps are done already. */
  readonly stages: readonly Stage[];
  /** What people should know before it is done, a sentence each. */
  readonly notes: readonly string[];
}

export function createStep(after: AnyResource): WriteStep {
  return { kind: 'write', text: `create ${showResourceId(resourceIdOf(after))}`, before: undefined, after };
}

export function deleteStep(before: AnyResource): WriteStep {
  return { kind: 'write', text: `delete ${showResourceId(resourceIdOf(before))}`, before, after: undefined };
}

/** `what` says which part of the resource changes. */
export function updateStep(before: AnyResource, after: AnyResource, what: string): WriteStep {
  return { kind: 'write', text: `change ${showResourceId(resourceIdOf(before))}: ${what}`, before, after };
}

/** The plan for people: numbered stages, a line for each step. */
export function renderPlan({ stages }: Plan): string {
  const open = stages.filter(({ steps }) => steps.length > 0);
  if (open.length === 0) return 'nothing is left to do\n';
  return open
    .map(({ title, steps }, index) => `${String(index + 1)}. ${title}\n${steps.map(stepLine).join('')}`)
    .join('');
}

export function stepLine(step: Step): string {
  const line = `   ${step.kind === 'wait' ? 'wait: ' : ''}${step.text}\n`;
  return step.kind === 'command' ? `${line}     $ ${step.command.join(' ')}\n` : line;
}
