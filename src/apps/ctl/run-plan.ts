import { sha256Of } from '../../base/atomic-file.ts';
import { errnoOf, isNetplugError, reasonOf } from '../../base/errors.ts';
import type { Mode } from '../../base/mode.ts';
import { type Actor, carryOut, type Execution, resume } from '../../plans/carry-out.ts';
import type { PlanRecords } from '../../plans/plan-records.ts';
import { isEmpty, type Plan, renderPlan, type Stage, type Step, stepLine } from '../../plans/plan.ts';
import type { Output } from './common-options.ts';
import type { Context, Status } from './ports.ts';

export interface PlanRun {
  readonly mode: Mode;
  readonly output: Output;
}

export interface Planned<A extends object> {
  /** Name of the record of the plan on this machine. */
  readonly name: string;
  /** Plans from what is there now. */
  readonly plan: () => Promise<Plan<A>>;
  readonly actor: Actor<A>;
  readonly afterwards?: Execution<A>['afterwards'];
}

/** Returns the name of the record of a plan. `about` tells plans of one purpose apart, such as by their datastore. */
export function recordName(purpose: string, about: object): string {
  return `${purpose}-${sha256Of(JSON.stringify(about)).slice(0, 12)}`;
}

/**
 * Shows the plan, or carries it out. What an interrupted command has left of its plan is carried out first; a plan that
 * no longer fits is made anew. Returns 1 when something is left for a person or another program.
 */
export async function runPlan<A extends object>(
  context: Context,
  planned: Planned<A>,
  { mode, output }: PlanRun,
): Promise<Status> {
  const { io } = context;
  let plan = await planned.plan();
  for (const note of plan.notes) io.stderr(`note: ${note}\n`);
  const isJson = output === 'json';
  if (isJson) io.stdout(`${JSON.stringify(plan, undefined, 2)}\n`);
  if (!isJson && (mode === 'rehearse' || isEmpty(plan))) io.stdout(renderPlan(plan));
  if (mode === 'rehearse' || isEmpty(plan)) return 0;
  const execution = executionOf(context, planned, isJson ? undefined : io.stdout);
  let outcome = await resumeIfSound(context, execution);
  if (outcome === 'done') plan = await planned.plan();
  if (outcome !== 'unfinished') outcome = await carryOut(execution, plan);
  if (outcome === 'done') return 0;
  io.stderr('not finished: run the same command again when the last steps above are done\n');
  return 1;
}

export function executionOf<A extends object>(
  { ports, io, signal }: Pick<Context, 'ports' | 'io' | 'signal'>,
  { name, actor, afterwards = 'remove-record' }: Omit<Planned<A>, 'plan'>,
  tell: (line: string) => void = () => undefined,
): Execution<A> {
  return {
    name,
    records: ifPossible(ports.planRecords, io.stderr),
    afterwards,
    actor,
    onStage: (title) => {
      tell(`${title}\n`);
    },
    onStep: (step) => {
      tell(stepLine(step));
    },
    signal,
  };
}

/** These plans can be made anew at any time: a disk that takes no record must not keep them from being carried out. */
function ifPossible(records: PlanRecords, warn: (text: string) => void): PlanRecords {
  let isWritable = true;
  return {
    ...records,
    save: async (name, text) => {
      if (!isWritable) return;
      await records.save(name, text).catch((cause: unknown) => {
        if (errnoOf(cause) === undefined) throw cause;
        isWritable = false;
        warn(`warning: the progress is not recorded, and cannot be undone or resumed: ${reasonOf(cause)}\n`);
      });
    },
  };
}

/** Shows the steps of the plan that are still to be carried out. */
export async function showPlan<A extends object>(
  { io, signal }: Context,
  { plan, actor }: { readonly plan: Plan<A>; readonly actor: Actor<A> },
  output: Output,
): Promise<void> {
  const stages: Stage<A>[] = [];
  for (const { title, steps } of plan.stages) {
    const open: Step<A>[] = [];
    for (const step of steps)
      if (step.kind !== 'write' || (await actor.inspect(step, signal)) !== 'after') open.push(step);
    stages.push({ title, steps: open });
  }
  const left = { ...plan, stages };
  io.stdout(output === 'json' ? `${JSON.stringify(left, undefined, 2)}\n` : renderPlan(left));
}

/** Resumes the plan of the record; a plan that no longer fits is noted, and left. */
export async function resumeIfSound<A extends object>(
  { io }: Context,
  execution: Execution<A>,
): Promise<Awaited<ReturnType<typeof resume>>> {
  try {
    return await resume(execution);
  } catch (cause) {
    if (!isNetplugError(cause, 'plan/outdated')) throw cause;
    io.stderr(`note: ${cause.message}; planned anew\n`);
    return undefined;
  }
}
