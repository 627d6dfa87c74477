// Other programs that change or remove the tables of netplug in nftables, while the agent's parts own them. Time of the periods
// by which they are compared never passes here: what comes back does so because the kernel has reported the change.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { TableFollower } from '../../src/apps/agent/network/follow-tables.ts';
import type { NodeNetwork } from '../../src/apps/agent/network/node-network.ts';
import type { PolicyEnforcement } from '../../src/apps/agent/network/policy/policy-enforcement.ts';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { aborted } from '../../src/base/until-aborted.ts';
import { linuxTableEvents } from '../../src/dataplane/linux/linux-table-events.ts';
import { ownProgramName } from '../../src/dataplane/linux/own-program.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import { PACKET_TABLES } from '../../src/install/packet-tables.ts';
import { POLICY_TABLE } from '../../src/policy/ruleset/policy-ruleset.ts';
import { endpointOf, makeHost, stopHosts, type TestHost } from '../support/enforcement-host.ts';
import { poolOf } from '../support/fixtures.ts';
import { enterNetns, newNetns, type TestNetns } from '../support/netns.ts';
import { hostAt, startNode, stopNodes, worldWith } from '../support/networked-node.ts';
import { until } from '../support/until.ts';

const WITHOUT_PERIODS: Clock = {
  ...systemClock,
  monotonic: () => 0,
  sleep: async (ms, signal) => {
    if (ms < 5000) return systemClock.sleep(ms, signal);
    await aborted(signal);
    signal.throwIfAborted();
  },
};

let scope: AsyncDisposableStack;
let netns: TestNetns;
let policyHost: TestHost;
let policy: PolicyEnforcement;
let network: NodeNetwork;
let follower: TableFollower;
let comparisons: number;
/** As the owners of the tables wrote them. */
let written: string;

beforeEach(async () => {
  scope = new AsyncDisposableStack();
  netns = scope.use(await newNetns());
  const inside = enterNetns(netns);
  scope.defer(() => inside.leave());
  const [tables, policies] = [scope.use(NftPolicyFilter.open()), scope.use(NftPolicyFilter.open())];
  const { store } = await worldWith(poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always', natOutgoing: true }));
  const host = hostAt('192.0.2.1/24');
  ({ network } = startNode('a', { store, host, filter: tables, clock: WITHOUT_PERIODS }));
  policyHost = makeHost();
  policyHost.policyFilter = () => policies;
  policy = policyHost.start('enforce');
  scope.defer(async () => {
    stopHosts();
    await stopNodes();
  });
  await policyHost.clock.pass(0);
  await policy.isolate(endpointOf('pod', 'npl1'));
  await until(async () => (await tablesOfHost()).length === PACKET_TABLES.length, 'all tables are written');
  await until(
    () => network.problems().length === 0,
    () => JSON.stringify(network.problems()),
  );
  written = await ruleset();
  comparisons = 0;
  const isOwn = (port: number): boolean => [tables, policies].some((filter) => filter.port === port);
  follower = new TableFollower(
    {
      clock: systemClock,
      log: silentLog,
      events: linuxTableEvents(isOwn),
      compare: async (names) => {
        comparisons += 1;
        const isOfPolicies = names.includes(POLICY_TABLE);
        const repaired = await Promise.all([network.compareTables(names), isOfPolicies && policy.compare()]);
        return repaired.includes(true);
      },
      ownProgram: await ownProgramName(),
    },
    PACKET_TABLES,
  );
  const stop = new AbortController();
  const running = follower.run(stop.signal);
  scope.defer(async () => {
    stop.abort();
    await running;
  });
});

afterEach(async () => scope.disposeAsync());

it.each([
  ['flushes all rules', 'flush ruleset', true],
  ['deletes a table', 'delete table inet netplug-policy', true],
  ['empties a chain', 'flush chain inet netplug-pods prerouting', false],
  ['accepts everything before the rules', 'insert rule inet netplug-policy forward-ingress accept', true],
  ['takes the interface of a pod out of a map', 'flush map inet netplug-policy to-pods', true],
  ['puts the hooks of a table out of force', 'add table inet netplug-nat { flags dormant; }', false],
])(
  'are as before at once when another program %s, and flows are judged again',
  async (_what, command, isOfPolicies) => {
    const { examinations } = policyHost;
    await netns.exec('nft', command);

    await until(async () => (await ruleset()) === written, 'the tables are as before');
    expect(policyHost.examinations > examinations).toBe(isOfPolicies);
    expect(follower.problems()).toEqual([]);
  },
);

it('are not compared because of what their owners write, or for tables of other programs', async () => {
  await policy.isolate(endpointOf('other', 'npl2'));
  await netns.exec('nft', 'add table inet other; add chain inet other c; add table ip netplug-policy');
  expect(await ruleset()).not.toBe(written);
  const own = await ruleset();

  await netns.exec('nft', 'flush chain inet netplug-pods prerouting');
  await until(async () => (await ruleset()) === own, 'the table is as before');

  expect(comparisons).toBe(1);
});

it('are as before after a program has flushed them 64 times in a row, which is named', async () => {
  const started = performance.now();
  for (let round = 0; round < 64 || follower.problems().length === 0; round += 1)
    await netns.exec('nft', 'flush ruleset');

  await until(async () => (await ruleset()) === written, 'the tables are as before');

  // Ten in a second, whatever the program does.
  expect(comparisons).toBeLessThan(2 + (performance.now() - started) / 100);
  expect(follower.problems()).toEqual([
    expect.objectContaining({ text: expect.stringContaining('"nft" changed or removed tables of netplug') }),
  ]);
});

it('are as before after another process of netplug has changed them, which is not named as another program', async () => {
  using calls = NftPolicyFilter.open();
  const { signal } = new AbortController();
  for (let round = 1; round <= 10; round += 1) {
    await calls.withdraw(POLICY_TABLE, { interfaces: ['npl1'], addresses: [] }, signal);
    await until(async () => comparisons >= round && (await ruleset()) === written, 'the table is as before');
  }
  expect(follower.problems()).toEqual([]);
});

async function tablesOfHost(): Promise<readonly string[]> {
  const listed = await netns.exec('nft', 'list', 'tables');
  return PACKET_TABLES.filter((name) => listed.includes(`inet ${name}`));
}

/** Returns the tables of netplug, their chains and sets in one order: the kernel lists them as they were made. */
async function ruleset(): Promise<string> {
  const objects: string[] = [];
  for (const name of await tablesOfHost()) {
    const listed = await netns.exec('nft', 'list', 'table', 'inet', name).catch(() => '');
    const [header = '', ...lines] = listed.trimEnd().split('\n').slice(0, -1);
    objects.push(
      ...lines
        .join('\n')
        .split('\n\n')
        .map((object) => `${header}\n${object}`),
    );
  }
  return objects.toSorted().join('\n');
}
