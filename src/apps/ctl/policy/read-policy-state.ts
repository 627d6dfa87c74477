import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { followPolicyRecords, PolicyCache, type PolicyRecord } from '../../../cache/policy-records.ts';
import type { Store } from '../../../datastore/store.ts';
import { agentSettings } from '../../../config/agent-settings.ts';
import type { BudgetLimits } from '../../../policy/policy-budgets.ts';
import { PolicyState } from '../../../policy/policy-state.ts';
import { withStore } from '../connection.ts';
import type { Context } from '../ports.ts';

/** Opens the datastore of the command and reads its policies. */
export async function withPolicyState<T>(
  context: Context,
  use: (view: PolicyState, store: Store, records: readonly PolicyRecord[]) => Promise<T>,
): Promise<T> {
  return withStore(context, 'read', async (store) => {
    const { state, records } = await readPolicyState(context, store);
    return use(state, store, records);
  });
}

/** Returns the budgets that all nodes have; those built in for an account that may not read AgentConfigurations. */
async function readLimits(store: Pick<Store, 'findResource'>, signal: AbortSignal): Promise<BudgetLimits> {
  const which = { kind: 'AgentConfiguration', name: 'default' } as const;
  const found = await store.findResource(which, signal).catch((cause: unknown) => {
    if (isNetplugError(cause, 'store/refused')) return undefined;
    throw cause;
  });
  const { settings } = agentSettings({}, '', found === undefined ? [] : [found]);
  return { ofPolicy: settings.policyEntriesPerPolicy, ofNamespace: settings.policyEntriesPerNamespace };
}

/** Reads all policies and what they select, at one moment. Warns of records and rules that cannot be used. */
export async function readPolicyState(
  { io, signal }: Pick<Context, 'io' | 'signal'>,
  store: Store,
): Promise<{ readonly state: PolicyState; readonly records: readonly PolicyRecord[] }> {
  const state = new PolicyState({ guards: 'assumed' });
  state.setLimits(await readLimits(store, signal));
  const read: PolicyRecord[] = [];
  const cache = new PolicyCache();
  for await (const { records, problems } of followPolicyRecords(store, cache, signal)) {
    state.apply(records);
    read.push(...records);
    for (const problem of problems) io.stderr(`warning: ${problem}\n`);
    // Built-in records come before the snapshot.
    if (cache.records.version === undefined) continue;
    for (const problem of [...state.problems.values()].flat()) io.stderr(`warning: ${problem}\n`);
    return { state, records: read };
  }
  throw new NetplugError('store/unavailable', 'Timed out while reading policies from the datastore');
}
