import type { ResourceStore } from '../../../datastore/resource-store.ts';
import { NetplugError } from '../../../base/errors.ts';
import type { ResourceKind, ResourceOf } from '../../../model/kinds.ts';
import type { Output } from '../common-options.ts';
import type { Context, Status } from '../ports.ts';
import { carryOut } from './carry-out.ts';
import { type Plan, renderPlan } from './plan.ts';

export interface PlanRun {
  readonly mode: 'rehearse' | 'carry-out';
  readonly output: Output;
}

/** Shows the plan, or carries it out; 1 when something is left for somebody else. */
export async function runPlan(
  { io, signal, store }: Pick<Context, 'io' | 'signal'> & { readonly store: ResourceStore },
  plan: Plan,
  { mode, output }: PlanRun,
): Promise<Status> {
  for (const note of plan.notes) io.stderr(`note: ${note}\n`);
  const isJson = output === 'json';
  if (isJson) io.stdout(`${JSON.stringify(plan, undefined, 2)}\n`);
  const isEmpty = plan.stages.every(({ steps }) => steps.length === 0);
  if (!isJson && (mode === 'rehearse' || isEmpty)) io.stdout(renderPlan(plan));
  if (mode === 'rehearse' || isEmpty) return 0;
  const tell = (line: string): void => (isJson ? undefined : io.stdout(line));
  if ((await carryOut({ store, tell, signal }, plan)) === 'done') return 0;
  io.stderr('not finished: run the same command again when the last steps above are done\n');
  return 1;
}

/** Everything of a kind: a procedure that overlooks an unreadable resource would do harm. @throws store/corrupt */
export async function listWhole<K extends ResourceKind>(
  store: ResourceStore,
  kind: K,
  signal: AbortSignal,
): Promise<readonly ResourceOf<K>[]> {
  const { resources, problems } = await store.listResources(kind, signal);
  const [first] = problems;
  if (first === undefined) return resources;
  throw new NetplugError('store/corrupt', first, { hint: 'Repair or delete it, then run the command again' });
}
