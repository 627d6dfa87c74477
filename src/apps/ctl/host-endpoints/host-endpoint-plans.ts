import { NetplugError } from '../../../base/errors.ts';
import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { ResourceKind, ResourceOf } from '../../../model/kinds.ts';
import { undo } from '../../../plans/carry-out.ts';
import { type MigrationOptions, planMigration } from '../../../upgrade/host-endpoints/plan-migration.ts';
import { planPreparation, planUndo, type UpgradeNames } from '../../../upgrade/host-endpoints/plan-preparation.ts';
import { resourceActor } from '../../../upgrade/resource-steps.ts';
import { withStoreToChange } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { executionOf, type PlanRun, recordName, runPlan } from '../run-plan.ts';

export interface PrepareOptions extends PlanRun {
  readonly direction: 'prepare' | 'undo';
  readonly names: UpgradeNames;
}

export async function prepareUpgrade(context: Context, { direction, names, ...run }: PrepareOptions): Promise<Status> {
  return withStoreToChange(context, { mode: run.mode, access: 'write-older' }, async (store, datastore) => {
    const plan = async (): Promise<ReturnType<typeof planPreparation>> => {
      const facts = {
        endpoints: await listWhole(store, 'HostEndpoint', context.signal),
        policy: await store.findResource({ kind: 'GlobalNetworkPolicy', name: names.policy }, context.signal),
      };
      return direction === 'prepare' ? planPreparation(facts, names) : planUndo(facts, names);
    };
    const name = recordName(`host-endpoints-${direction}`, datastore);
    return runPlan(context, { name, plan, actor: resourceActor(store) }, run);
  });
}

export type MigrateOptions = PlanRun &
  Omit<MigrationOptions, 'nodeManager'> & { readonly direction: 'migrate' | 'undo' };

export async function migrateHostEndpoints(context: Context, options: MigrateOptions): Promise<Status> {
  const { signal, io } = context;
  return withStoreToChange(context, options, async (store, datastore) => {
    const planned = {
      name: recordName('host-endpoints-migrate', datastore),
      actor: resourceActor(store),
      afterwards: 'keep-record',
    } as const;
    if (options.direction === 'undo') {
      await undo(
        executionOf(context, planned, (line) => {
          io.stdout(`undone:${line.slice(2)}`);
        }),
      );
      return 0;
    }
    const nodeManager = datastore.type === 'orch' ? 'orchestrator' : 'netplug';
    const plan = async (): Promise<ReturnType<typeof planMigration>> => {
      const facts = {
        endpoints: await listWhole(store, 'HostEndpoint', signal),
        // The plan refuses an unreadable node like a missing one.
        nodes: (await store.listResources('Node', signal)).resources,
        configuration: await store.findResource({ kind: 'ControllersConfiguration', name: 'default' }, signal),
      };
      return planMigration(facts, { ...options, nodeManager });
    };
    return runPlan(context, { ...planned, plan }, options);
  });
}

/** Lists every resource of a kind; overlooking an unreadable one would do harm. @throws store/corrupt */
async function listWhole<K extends ResourceKind>(
  store: ResourceStore,
  kind: K,
  signal: AbortSignal,
): Promise<readonly ResourceOf<K>[]> {
  const { resources, problems } = await store.listResources(kind, signal);
  const [first] = problems;
  if (first === undefined) return resources;
  throw new NetplugError('store/corrupt', first, { hint: 'Repair or delete it, then run the command again' });
}
