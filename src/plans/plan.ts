import { visibleText } from '../base/visible-text.ts';

/**
 * A step that this program carries out. `A` holds the data of the step. It must survive JSON, because another process
 * may resume the plan from disk.
 */
export type WriteStep<A extends object> = A & {
  readonly kind: 'write';
  readonly text: string;
  /** Set when the step cannot be undone. */
  readonly isFinal?: true;
};

export type Step<A extends object> =
  | WriteStep<A>
  /** A user with sufficient rights must run the command. */
  | (A & { readonly kind: 'command'; readonly text: string; readonly command: readonly string[] })
  /** Another program does this. */
  | { readonly kind: 'wait'; readonly text: string };

/** Steps that may run in any order. The next stage begins when all of them are done. */
export interface Stage<A extends object> {
  readonly title: string;
  readonly steps: readonly Step<A>[];
}

/** The difference between actual and desired state, as steps. No two steps change the same object. */
export interface Plan<A extends object> {
  /** A stage without steps is done already. */
  readonly stages: readonly Stage<A>[];
  /** Sentences that the user should read before the plan is carried out. */
  readonly notes: readonly string[];
}

export function isEmpty<A extends object>({ stages }: Plan<A>): boolean {
  return stages.every(({ steps }) => steps.length === 0);
}

/** Renders the plan as text: numbered stages, a line for each step, whatever the names of others hold. */
export function renderPlan<A extends object>(plan: Plan<A>): string {
  if (isEmpty(plan)) return 'nothing is left to do\n';
  return plan.stages
    .filter(({ steps }) => steps.length > 0)
    .map(({ title, steps }, index) => `${String(index + 1)}. ${visibleText(title)}\n${steps.map(stepLine).join('')}`)
    .join('');
}

export function stepLine<A extends object>(step: Step<A>): string {
  const end = step.kind === 'write' && step.isFinal === true ? ' (cannot be undone)' : '';
  const line = `   ${step.kind === 'wait' ? 'wait: ' : ''}${visibleText(step.text)}${end}\n`;
  return step.kind === 'command' ? `${line}     $ ${visibleText(step.command.join(' '))}\n` : line;
}
