import { withStoreToChange } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { type MigrationOptions, planMigration } from './plan-migration.ts';
import { listWhole, type PlanRun, runPlan } from './run-plan.ts';

export type MigrateOptions = PlanRun & Omit<MigrationOptions, 'nodeKeeper'>;

export async function migrateHostEndpoints(context: Context, options: MigrateOptions): Promise<Status> {
  const { signal } = context;
  return withStoreToChange(context, options, async (store, { type }) => {
    const facts = {
      endpoints: await listWhole(store, 'HostEndpoint', signal),
      // One that cannot be read is refused as one that is not there.
      nodes: (await store.listResources('Node', signal)).resources,
      configuration: await store.findResource({ kind: 'ControllersConfiguration', name: 'default' }, signal),
    };
    const nodeKeeper = type === 'orch' ? 'orchestrator' : 'netplug';
    return runPlan({ ...context, store }, planMigration(facts, { ...options, nodeKeeper }), options);
  });
}
