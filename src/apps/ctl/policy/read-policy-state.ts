import { NetplugError } from '../../../base/errors.ts';
import { followPolicyRecords } from '../../../cache/policy-records.ts';
import { RecordCache } from '../../../cache/record-cache.ts';
import type { FollowStore } from '../../../datastore/follow.ts';
import { PolicyState } from '../../../policy/policy-state.ts';
import type { Context } from '../ports.ts';

/** Reads all policies and what they select, at one moment. Warns of records and rules that cannot be used. */
export async function readPolicyState(
  { io, signal }: Pick<Context, 'io' | 'signal'>,
  store: FollowStore,
): Promise<PolicyState> {
  const state = new PolicyState();
  const cache = new RecordCache();
  for await (const { records, problems } of followPolicyRecords(store, cache, signal)) {
    state.apply(records);
    for (const problem of problems) io.stderr(`warning: ${problem}\n`);
    // Built-in records come before the snapshot.
    if (cache.version === undefined) continue;
    for (const problem of [...state.problems.values()].flat()) io.stderr(`warning: ${problem}\n`);
    return state;
  }
  throw new NetplugError('store/unavailable', 'Timed out while reading policies from the datastore');
}
