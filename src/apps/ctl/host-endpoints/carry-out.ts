import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { resourceIdOf } from '../../../model/resource-id.ts';
import { type Change, type Plan, stepLine } from './plan.ts';

export interface Carrying {
  readonly store: ResourceStore;
  /** Told of each step that is done, and of each that netplug cannot do. */
  readonly tell: (line: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Takes the steps one after the other. A stage that has steps for others is the last for now: plan again when they are
 * done. @throws resource/changed when somebody changed a resource since the plan was made: plan again
 */
export async function carryOut(carrying: Carrying, { stages }: Plan): Promise<'done' | 'unfinished'> {
  for (const { title, steps } of stages) {
    if (steps.length > 0) carrying.tell(`${title}\n`);
    for (const step of steps) {
      if (step.kind === 'write') await write(carrying, step);
      carrying.tell(stepLine(step));
    }
    if (steps.some(({ kind }) => kind !== 'write')) return 'unfinished';
  }
  return 'done';
}

async function write({ store, signal }: Carrying, { before, after }: Change): Promise<void> {
  if (after !== undefined) {
    await (before === undefined ? store.createResource(after, signal) : store.updateResource(after, signal));
    return;
  }
  const { resourceVersion } = before.metadata;
  const version = resourceVersion === undefined ? {} : { resourceVersion };
  await store.deleteResource({ ...resourceIdOf(before), ...version }, signal);
}
