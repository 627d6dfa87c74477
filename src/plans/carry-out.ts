import { NetplugError } from '../base/errors.ts';
import type { Plan, Step, WriteStep } from './plan.ts';
import { recordId, type PlanRecord, type PlanRecords, readPlanRecord, writePlanRecord } from './plan-records.ts';

/** `before` and `after` the step; `differs` is neither. */
export type Standing = 'before' | 'after' | 'differs';

/** Carries out the steps of one kind of plan. */
export interface Actor<A extends object> {
  /** Compares what is there with the step. A step that was cut short and can be repeated stands `before`. */
  inspect(step: WriteStep<A>, signal: AbortSignal): Promise<Standing>;
  apply(step: WriteStep<A>, signal: AbortSignal): Promise<void>;
  /**
   * Takes back a step that stands `after` or was cut short, and does nothing where it was not begun. Without it, no step
   * can be undone.
   */
  revert?(step: WriteStep<A>, signal: AbortSignal): Promise<void>;
}

export interface Execution<A extends object> {
  /** Name of the record; one plan of a name is under way at a time. */
  readonly name: string;
  readonly records: PlanRecords;
  /** Whether the record stays at the end, so that the plan can be undone; removed otherwise. */
  readonly afterwards: 'keep-record' | 'remove-record';
  readonly actor: Actor<A>;
  /** Receives each step that an earlier process has carried out. */
  readonly onSkip?: (step: Step<A>) => void;
  /** Receives each stage that has open steps, before its first one. */
  readonly onStage?: (title: string) => void;
  /** Receives each step that is done, and each that this program cannot do. */
  readonly onStep?: (step: Step<A>) => void;
  readonly signal: AbortSignal;
}

/** `unfinished`: a stage has steps for a person or another program. Plan again when they are done. */
export type PlanOutcome = 'done' | 'unfinished';

/** Carries out a plan that was made just now. A record of the name is replaced. */
export async function carryOut<A extends object>(execution: Execution<A>, plan: Plan<A>): Promise<PlanOutcome> {
  return goForward(execution, { id: recordId(plan), plan, direction: 'forward', steps: {}, isOver: false });
}

/**
 * Carries out what an interrupted process has left of its plan. Undefined when none was interrupted on the way forward.
 * @throws plan/outdated before anything is done, when a step stands neither before nor after
 */
export async function resume<A extends object>(execution: Execution<A>): Promise<PlanOutcome | undefined> {
  const record = await readPlanRecord<A>(execution.records, execution.name);
  if (record === undefined || record.isOver || record.direction === 'undo') return undefined;
  const steps = { ...record.steps };
  for (const { key, step } of keyedSteps(record.plan)) {
    if (step.kind !== 'write') continue;
    const standing = await execution.actor.inspect(step, execution.signal);
    if (standing === 'differs' || (standing === 'before' && steps[key] === 'done'))
      throw outdated(execution.name, step);
    if (standing === 'after') steps[key] = 'done';
  }
  return goForward(execution, { ...record, steps });
}

/**
 * Takes back the steps of the recorded plan in reverse, also of a plan that was interrupted. An undo that was interrupted
 * goes on where it ended.
 * @throws plan/outdated before anything is done when there is no plan, a step cannot be undone, or the result of one
 *   was changed since
 */
export async function undo<A extends object>(execution: Execution<A>): Promise<void> {
  const record = await readPlanRecord<A>(execution.records, execution.name);
  if (record === undefined) {
    throw new NetplugError('plan/outdated', `Cannot undo the plan "${execution.name}": there is no record of one`, {
      hint: 'Undo it on the machine, and as the user, that carried it out',
    });
  }
  await goBack(execution, { ...record, direction: 'undo', isOver: false });
}

async function goForward<A extends object>(execution: Execution<A>, begun: PlanRecord<A>): Promise<PlanOutcome> {
  const { actor, onStage, onStep, signal } = execution;
  let record = begun;
  const note = async (changes: Partial<PlanRecord<A>>): Promise<void> => {
    record = { ...record, ...changes };
    await writePlanRecord(execution.records, execution.name, record);
  };
  let stage: number | undefined;
  let isWaiting = false;
  for (const { key, step, index, title } of keyedSteps(record.plan)) {
    if (isWaiting && index !== stage) break;
    if (record.steps[key] === 'done') {
      execution.onSkip?.(step);
      continue;
    }
    if (index !== stage) onStage?.(title);
    stage = index;
    if (step.kind === 'write') {
      signal.throwIfAborted();
      await note({ steps: { ...record.steps, [key]: 'begun' } });
      await actor.apply(step, signal);
      await note({ steps: { ...record.steps, [key]: 'done' } });
    } else isWaiting = true;
    onStep?.(step);
  }
  if (execution.afterwards === 'keep-record') await note({ isOver: true });
  else await execution.records.remove(execution.name);
  return isWaiting ? 'unfinished' : 'done';
}

async function goBack<A extends object>(execution: Execution<A>, begun: PlanRecord<A>): Promise<void> {
  const { actor, onStep, signal } = execution;
  const open = keyedSteps(begun.plan).flatMap(({ key, step }) =>
    step.kind === 'write' && begun.steps[key] !== undefined ? [{ key, step }] : [],
  );
  for (const { key, step } of open) {
    const standing = await actor.inspect(step, signal);
    const isFinal = step.isFinal === true || actor.revert === undefined;
    const isRefused = standing === 'after' ? isFinal : standing === 'differs' && begun.steps[key] === 'done';
    if (isRefused) throw outdated(execution.name, step);
  }
  let record = begun;
  for (const { key, step } of open.toReversed()) {
    signal.throwIfAborted();
    const { [key]: _, ...others } = record.steps;
    record = { ...record, steps: { ...others, [key]: 'begun' } };
    await writePlanRecord(execution.records, execution.name, record);
    if ((await actor.inspect(step, signal)) !== 'differs') await actor.revert?.(step, signal);
    record = { ...record, steps: others };
    await writePlanRecord(execution.records, execution.name, record);
    onStep?.(step);
  }
  await writePlanRecord(execution.records, execution.name, { ...record, isOver: true });
}

interface KeyedStep<A extends object> {
  /** The step's place in the plan, such as `2.1`. */
  readonly key: string;
  readonly step: Step<A>;
  readonly index: number;
  readonly title: string;
}

function keyedSteps<A extends object>({ stages }: Plan<A>): readonly KeyedStep<A>[] {
  return stages.flatMap(({ title, steps }, index) =>
    steps.map((step, place) => ({ key: `${String(index + 1)}.${String(place + 1)}`, step, index, title })),
  );
}

function outdated<A extends object>(name: string, { text, isFinal }: WriteStep<A>): NetplugError {
  const reason = isFinal === true ? `"${text}" cannot be undone` : `the object of "${text}" changed since`;
  return new NetplugError('plan/outdated', `Cannot go on with the plan "${name}": ${reason}`, {
    hint: 'See with --dry-run what the command plans anew',
    facts: { step: text },
  });
}
