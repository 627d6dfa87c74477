import { sha256Of } from '../../base/sha256.ts';
import { errnoOf, isNetplugError, reasonOf } from '../../base/errors.ts';
import type { Mode } from '../../base/mode.ts';
import { type Actor, carryOut, type Execution, isInterrupted, resume } from '../../plans/carry-out.ts';
import type { PlanRecords } from '../../plans/plan-records.ts';
import { isEmpty, type Plan, renderPlan, type Stage, type Step, stepLine } from '../../plans/plan.ts';
import type { Output } from './common-options.ts';
import type { Context, Status } from './ports.ts';
import { jsonText, renderDocument } from './render-document.ts';

export interface PlanRun {
  readonly mode: Mode;
  readonly output: Output;
}

export interface Planned<A extends object> {
  /** Name of the plan's record on this machine. */
  readonly name: string;
  /** Makes a plan from the actual state. */
  readonly plan: () => Promise<Plan<A>>;
  readonly actor: Actor<A>;
  readonly afterwards?: Execution<A>['afterwards'];
}

/** Returns the name of the record of a plan. `about` distinguishes plans of one purpose, for example by datastore. */
export function recordName(purpose: string, about: object): string {
  return `${purpose}-${sha256Of(JSON.stringify(about)).slice(0, 12)}`;
}

/**
 * Shows the plan, or carries it out. Finishes the plan of an interrupted command first, unless it is outdated. Returns
 * 1 when steps are left for a user or another program.
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
  if (isJson) io.stdout(jsonText(plan));
  if (!isJson && (mode === 'dry-run' || isEmpty(plan))) io.stdout(renderPlan(plan));
  if (mode === 'dry-run' || isEmpty(plan)) return 0;
  const execution = executionOf(context, planned, isJson ? undefined : io.stdout);
  const continues = await isInterrupted(execution);
  let outcome = await resumeIfSound(context, execution);
  if (outcome === 'done') plan = await planned.plan();
  // The record of what was resumed stays for --undo.
  if (isEmpty(plan)) return 0;
  if (outcome !== 'unfinished') outcome = await carryOut(execution, plan, { continues });
  if (outcome === 'done') return 0;
  io.stderr('not finished: run the same command again when the last steps above are done\n');
  return 1;
}

export function executionOf<A extends object>(
  { ports, io, signal }: Pick<Context, 'ports' | 'io' | 'signal'>,
  { name, actor, afterwards = 'remove-record' }: Omit<Planned<A>, 'plan'>,
  print: (line: string) => void = () => undefined,
): Execution<A> {
  return {
    name,
    records: withoutFailedWrites(ports.planRecords, io.stderr),
    afterwards,
    actor,
    onStage: (title) => {
      print(`${title}\n`);
    },
    onStep: (step) => {
      print(stepLine(step));
    },
    signal,
  };
}

/** Warns instead of failing when a record cannot be written: these plans can be made again at any time. */
function withoutFailedWrites(records: PlanRecords, warn: (text: string) => void): PlanRecords {
  let isWritable = true;
  return {
    ...records,
    save: async (name, text) => {
      if (!isWritable) return;
      await records.save(name, text).catch((cause: unknown) => {
        if (errnoOf(cause) === undefined) throw cause;
        isWritable = false;
        warn(`warning: the progress is not recorded, so that it cannot be undone or resumed: ${reasonOf(cause)}\n`);
      });
    },
  };
}

/** Shows the pending steps of the plan. */
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
  io.stdout(renderDocument(left, output, renderPlan));
}

/** Resumes the recorded plan; prints a note and returns undefined when it is outdated. */
export async function resumeIfSound<A extends object>(
  { io }: Context,
  execution: Execution<A>,
): Promise<Awaited<ReturnType<typeof resume>>> {
  try {
    return await resume(execution);
  } catch (cause) {
    if (!isNetplugError(cause, 'plan/outdated')) throw cause;
    io.stderr(`note: ${cause.message}; making a new plan\n`);
    return undefined;
  }
}
