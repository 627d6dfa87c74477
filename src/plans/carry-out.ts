import { forEachLimit } from '../base/for-each-limit.ts';
import { ownValue } from '../base/own-value.ts';
import { SerialQueue } from '../base/serial-queue.ts';
import { isNetplugError, NetplugError } from '../base/errors.ts';
import type { Plan, Stage, Step, WriteStep } from './plan.ts';
import {
  memoryPlanRecords,
  type PlanRecord,
  type PlanRecords,
  readPlanRecord,
  recordId,
  writePlanRecord,
} from './plan-records.ts';

/** Whether an object is in its state `before` or `after` a step; `differs` means neither. */
export type Standing = 'before' | 'after' | 'differs';

/** Carries out the steps of one kind of plan. */
export interface Actor<A extends object> {
  /** Compares the actual state with a step. Returns `before` for an interrupted step that can be repeated. */
  inspect(step: WriteStep<A>, signal: AbortSignal): Promise<Standing>;
  apply(step: WriteStep<A>, signal: AbortSignal): Promise<void>;
  /**
   * Undoes a step that was done or interrupted; does nothing for a step that was not begun. Without this function no
   * step can be undone.
   */
  revert?(step: WriteStep<A>, signal: AbortSignal): Promise<void>;
}

export interface Execution<A extends object> {
  /** Name of the record. At most one plan of a name is carried out at a time. */
  readonly name: string;
  readonly records: PlanRecords;
  /** Whether the record is kept at the end, so that the plan can be undone. */
  readonly afterwards: 'keep-record' | 'remove-record';
  readonly actor: Actor<A>;
  /** Receives each step that an earlier process carried out. */
  readonly onSkip?: (step: Step<A>) => void;
  /** Receives the title of each stage with pending steps, before the first of them. */
  readonly onStage?: (title: string) => void;
  /** Receives each step once it is done, and each step that this program cannot carry out. */
  readonly onStep?: (step: Step<A>) => void;
  /** The number of steps of a stage that are carried out at the same time; one unless given. */
  readonly atOnce?: number;
  readonly signal: AbortSignal;
}

/** `unfinished`: a stage has steps for a user or another program. Plan again when they are done. */
export type PlanOutcome = 'done' | 'unfinished';

/** Reports whether a plan of that name was interrupted on the way forward; false for a damaged record. */
export async function isInterrupted<A extends object>({ records, name }: Execution<A>): Promise<boolean> {
  try {
    const record = await readPlanRecord<A>(records, name);
    return record !== undefined && !record.isOver && record.direction === 'forward';
  } catch (cause) {
    if (!isNetplugError(cause, 'plan/outdated')) throw cause;
    return false;
  }
}

/**
 * Carries out a new plan. Replaces a record of the same name, or with `continues` adds the plan to the finished steps of that
 * record, so that all of them can be undone together.
 */
export async function carryOut<A extends object>(
  execution: Execution<A>,
  plan: Plan<A>,
  { continues = false }: { readonly continues?: boolean } = {},
): Promise<PlanOutcome> {
  const finished = continues ? await finishedStages(execution) : [];
  const whole = { ...plan, stages: [...finished, ...plan.stages] };
  const keys = keyedSteps({ ...plan, stages: finished }).map(({ key }) => [key, 'earlier'] as const);
  return goForward(execution, {
    id: recordId(whole),
    plan: whole,
    direction: 'forward',
    steps: Object.fromEntries(keys),
    isOver: false,
  });
}

/** Carries out a plan without a record, because the actual state shows what is left of it. */
export async function carryOutUnrecorded<A extends object>(
  plan: Plan<A>,
  execution: Pick<Execution<A>, 'actor' | 'onStage' | 'onStep' | 'atOnce' | 'signal'>,
): Promise<void> {
  await carryOut({ ...execution, name: '', records: memoryPlanRecords(), afterwards: 'remove-record' }, plan);
}

/** Returns the steps of the recorded plan that are done, in their stages. */
async function finishedStages<A extends object>({
  records,
  name,
  actor,
  signal,
}: Execution<A>): Promise<readonly Stage<A>[]> {
  const record = await readPlanRecord<A>(records, name);
  if (record === undefined) return [];
  const finished = new Set<Step<A>>();
  for (const { key, step } of keyedSteps(record.plan)) {
    if (step.kind !== 'write' || ownValue(record.steps, key) === undefined) continue;
    if (ownValue(record.steps, key) !== 'begun' || (await actor.inspect(step, signal)) === 'after') finished.add(step);
  }
  return record.plan.stages
    .map((stage) => ({ ...stage, steps: stage.steps.filter((step) => finished.has(step)) }))
    .filter(({ steps }) => steps.length > 0);
}

/**
 * Carries out the remaining steps of an interrupted plan. Returns undefined when no plan was interrupted on the way
 * forward.
 * @throws plan/outdated before anything is changed, when the object of a step is neither before nor after it
 */
export async function resume<A extends object>(execution: Execution<A>): Promise<PlanOutcome | undefined> {
  const record = await readPlanRecord<A>(execution.records, execution.name);
  if (record === undefined || record.isOver || record.direction === 'undo') return undefined;
  const steps = new Map(Object.entries(record.steps));
  for (const { key, step } of keyedSteps(record.plan)) {
    if (step.kind !== 'write' || steps.get(key) === 'earlier') continue;
    const standing = await execution.actor.inspect(step, execution.signal);
    if (standing === 'differs' || (standing === 'before' && steps.get(key) === 'done'))
      throw outdated(execution.name, step);
    if (standing === 'after') steps.set(key, 'done');
  }
  return goForward(execution, { ...record, steps: Object.fromEntries(steps) });
}

/**
 * Undoes the steps of the recorded plan in reverse order, also those of an interrupted plan. Resumes an interrupted
 * undo.
 * @throws plan/outdated before anything is changed, when there is no plan, a step cannot be undone, or the object of a
 *   step was changed after it; after all other steps are undone, when the object of an interrupted step was changed: it
 *   may or may not have the change of that step
 */
export async function undo<A extends object>(execution: Execution<A>): Promise<void> {
  const record = await readPlanRecord<A>(execution.records, execution.name);
  if (record === undefined) {
    throw new NetplugError(
      'plan/outdated',
      `Cannot undo the plan "${execution.name}": it has no record on this machine`,
      {
        hint: 'Run the command on the machine, and as the user, that carried out the plan',
      },
    );
  }
  await goBack(execution, { ...record, direction: 'undo', isOver: false });
}

async function goForward<A extends object>(execution: Execution<A>, begun: PlanRecord<A>): Promise<PlanOutcome> {
  const { actor, onStage, onStep, atOnce = 1, signal } = execution;
  let record = begun;
  const writes = new SerialQueue();
  const note = async (changes: Partial<PlanRecord<A>>): Promise<void> => {
    record = { ...record, ...changes };
    await writes.run(async () => writePlanRecord(execution.records, execution.name, record));
  };
  let stage: number | undefined;
  let isWaiting = false;
  const advance = async ({ key, step, index, title }: KeyedStep<A>): Promise<void> => {
    if (ownValue(record.steps, key) === 'done' || ownValue(record.steps, key) === 'earlier') {
      execution.onSkip?.(step);
      return;
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
  };
  for (const steps of Map.groupBy(keyedSteps(record.plan), ({ index }) => index).values()) {
    await forEachLimit(steps, atOnce, advance);
    if (isWaiting) break;
  }
  if (execution.afterwards === 'keep-record') await note({ isOver: true });
  else await execution.records.remove(execution.name);
  return isWaiting ? 'unfinished' : 'done';
}

async function goBack<A extends object>(execution: Execution<A>, begun: PlanRecord<A>): Promise<void> {
  const { actor, onStep, signal } = execution;
  const open = keyedSteps(begun.plan).flatMap(({ key, step }) =>
    step.kind === 'write' && ownValue(begun.steps, key) !== undefined ? [{ key, step }] : [],
  );
  for (const { key, step } of open) {
    const standing = await actor.inspect(step, signal);
    const isFinal = step.isFinal === true || actor.revert === undefined;
    const isRefused = standing === 'after' ? isFinal : standing === 'differs' && ownValue(begun.steps, key) === 'done';
    if (isRefused) throw outdated(execution.name, step);
  }
  let record = begun;
  const left: WriteStep<A>[] = [];
  for (const { key, step } of open.toReversed()) {
    signal.throwIfAborted();
    // An undo that was interrupted has reverted it: the revert changes the version of the object.
    if (ownValue(record.steps, key) !== 'undoing' && (await actor.inspect(step, signal)) === 'differs') {
      left.push(step);
      continue;
    }
    const { [key]: _, ...others } = record.steps;
    record = { ...record, steps: { ...others, [key]: 'undoing' } };
    await writePlanRecord(execution.records, execution.name, record);
    if ((await actor.inspect(step, signal)) !== 'differs') await actor.revert?.(step, signal);
    record = { ...record, steps: others };
    await writePlanRecord(execution.records, execution.name, record);
    onStep?.(step);
  }
  await writePlanRecord(execution.records, execution.name, { ...record, isOver: true });
  if (left.length > 0) throw notUndone(left);
}

interface KeyedStep<A extends object> {
  /** Position of the step in the plan, such as `2.1`. */
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
  const reason =
    isFinal === true ? `"${text}" cannot be undone` : `the object of "${text}" was changed in the meantime`;
  return new NetplugError('plan/outdated', `Cannot continue the plan "${name}": ${reason}`, {
    hint: 'Run the command with --dry-run to see its new plan',
    facts: { step: text },
  });
}

function notUndone<A extends object>(steps: readonly WriteStep<A>[]): NetplugError {
  const texts = steps.map(({ text }) => `"${text}"`).join(', ');
  return new NetplugError('plan/outdated', `Cannot undo ${texts}: its object was changed in the meantime`, {
    hint: 'Compare the object with the step and correct it by hand; all other steps are undone',
    facts: { steps: steps.map(({ text }) => text) },
  });
}
