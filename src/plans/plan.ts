/**
 * A step that this program carries out. `A` is what distinguishes the step, as JSON: a plan is stored on disk and
 * resumed by another process.
 */
export type WriteStep<A extends object> = A & {
  readonly kind: 'write';
  readonly text: string;
  /** Set where undoing the plan cannot take the step back. */
  readonly isFinal?: true;
};

export type Step<A extends object> =
  | WriteStep<A>
  /** A person with the rights for it has to run the command. */
  | (A & { readonly kind: 'command'; readonly text: string; readonly command: readonly string[] })
  /** Another program brings it about. */
  | { readonly kind: 'wait'; readonly text: string };

/** Steps in any order; the next stage begins when all of them are done. */
export interface Stage<A extends object> {
  readonly title: string;
  readonly steps: readonly Step<A>[];
}

/** What is to be done, decided from what is there. No two steps change the same object. */
export interface Plan<A extends object> {
  /** Stages without steps are done already. */
  readonly stages: readonly Stage<A>[];
  /** What the user should know before the plan is carried out, a sentence each. */
  readonly notes: readonly string[];
}

export function isEmpty<A extends object>({ stages }: Plan<A>): boolean {
  return stages.every(({ steps }) => steps.length === 0);
}

/** Renders the plan as text: numbered stages, a line for each step. */
export function renderPlan<A extends object>(plan: Plan<A>): string {
  if (isEmpty(plan)) return 'nothing is left to do\n';
  return plan.stages
    .filter(({ steps }) => steps.length > 0)
    .map(({ title, steps }, index) => `${String(index + 1)}. ${title}\n${steps.map(stepLine).join('')}`)
    .join('');
}

export function stepLine<A extends object>(step: Step<A>): string {
  const end = step.kind === 'write' && step.isFinal === true ? ' (cannot be undone)' : '';
  const line = `   ${step.kind === 'wait' ? 'wait: ' : ''}${step.text}${end}\n`;
  return step.kind === 'command' ? `${line}     $ ${step.command.join(' ')}\n` : line;
}
