// Compares the policies in the kernel of a node with those that the datastore asks for.
import { followPolicyRecords, PolicyCache } from '../../src/cache/policy-records.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import type { FollowStore } from '../../src/datastore/follow.ts';
import { PolicyState } from '../../src/policy/policy-state.ts';
import { POLICY_TABLE } from '../../src/policy/ruleset/policy-ruleset.ts';
import { RulesetCompiler } from '../../src/policy/ruleset/ruleset-compiler.ts';
import { newNetns, type TestNetns } from './netns.ts';
import { insideSync } from './policy-host.ts';

const DEADLINE_MS = 30_000;

/** Reads everything that policies depend on, as it is now. */
export async function readPolicies(store: FollowStore): Promise<PolicyState> {
  const state = new PolicyState();
  const cache = new PolicyCache();
  const stop = new AbortController();
  for await (const { records } of followPolicyRecords(
    store,
    cache,
    AbortSignal.any([stop.signal, AbortSignal.timeout(DEADLINE_MS)]),
  )) {
    state.apply(records);
    // Built-in records come before the snapshot.
    if (cache.records.version === undefined) continue;
    stop.abort();
    return state;
  }
  throw new Error('no snapshot of policies');
}

/** Returns the lines of the table that the node would have if it were written now, from nothing, by another kernel. */
export async function desiredTable(view: PolicyState, node: string): Promise<readonly string[]> {
  const compiler = new RulesetCompiler({ node, logPrefix: 'netplug', endpointToHostAction: 'Accept' });
  const { table } = compiler.compile(view);
  await using netns = await newNetns();
  using filter = insideSync(netns, () => NftPolicyFilter.open());
  await filter.apply(table, { signal: AbortSignal.timeout(DEADLINE_MS) });
  return await tableIn(netns);
}

/** Returns the lines of the table in the namespace, without counters, in an order of their own. */
export async function tableIn(netns: Pick<TestNetns, 'exec'>): Promise<readonly string[]> {
  const listed = await netns.exec('nft', '--json', 'list', 'table', 'inet', POLICY_TABLE);
  const rulesOf = new Map<string, number>();
  const { nftables } = JSON.parse(listed) as { readonly nftables: readonly Entry[] };
  const lines = nftables.flatMap((entry) => {
    const [kind = '', value] = Object.entries(entry)[0] ?? [];
    if (value === undefined || kind === 'metainfo') return [];
    const chain = String(value['chain']);
    // The kernel adds and removes what its limits count.
    if (kind === 'set' && String(value['name']).match(/^(?:reports|ended|cut)-/) !== null)
      delete (value as Record<string, unknown>)['elem'];
    const place = kind === 'rule' ? (rulesOf.get(chain) ?? 0) : 0;
    if (kind === 'rule') rulesOf.set(chain, place + 1);
    return [`${kind} ${String(place)} ${JSON.stringify(value, withoutCounts)}`];
  });
  return lines.toSorted();
}

type Entry = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** Handles and counts differ between kernels; the elements of a set have no order. */
function withoutCounts(key: string, value: unknown): unknown {
  if (['handle', 'packets', 'bytes'].includes(key)) return undefined;
  if (key === 'elem' && Array.isArray(value)) return value.map((each) => JSON.stringify(each)).toSorted();
  return value;
}
