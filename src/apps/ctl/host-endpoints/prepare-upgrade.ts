import { withStoreToChange } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { planPreparation, planUndo, type UpgradeNames } from './plan-preparation.ts';
import { listWhole, type PlanRun, runPlan } from './run-plan.ts';

export interface PrepareOptions extends PlanRun {
  readonly direction: 'prepare' | 'undo';
  readonly names: UpgradeNames;
}

export async function prepareUpgrade(context: Context, { direction, names, ...run }: PrepareOptions): Promise<Status> {
  return withStoreToChange(context, { mode: run.mode, access: 'write-older' }, async (store) => {
    const facts = {
      endpoints: await listWhole(store, 'HostEndpoint', context.signal),
      policy: await store.findResource({ kind: 'GlobalNetworkPolicy', name: names.policy }, context.signal),
    };
    const plan = direction === 'prepare' ? planPreparation(facts, names) : planUndo(facts, names);
    return runPlan({ ...context, store }, plan, run);
  });
}
