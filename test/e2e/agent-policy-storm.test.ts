// Pods, labels and policies change on two nodes while their agents die; then each kernel has what the evaluator says.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inside, openStoreOn } from '../../scripts/bench/inside.ts';
import type { Store } from '../../src/datastore/store.ts';
import { parseAddress } from '../../src/net/address.ts';
import { endAt, evaluateConnection } from '../../src/policy/evaluate.ts';
import type { PolicyState } from '../../src/policy/policy-state.ts';
import { type Fabric, startFabric } from '../support/fabric.ts';
import { SIZES } from '../runs.ts';
import { desiredTable, readPolicies, tableIn } from '../support/policy-kernel.ts';
import { startStorm, type Storm } from '../support/policy-storm.ts';
import { pingOnce } from '../support/traffic.ts';
import { until } from '../support/until.ts';

const SIZE = SIZES.policyStorm;
const SEED = Number(process.env['NETPLUG_STORM_SEED'] ?? 20261123);
/** For agents to read everything again and write it. */
const SETTLED_MS = 60_000;
const AT_ONCE = 8;
const SHOWN = 10;

const scope = new AsyncDisposableStack();
let fabric: Fabric;
let store: Store;
let storm: Storm;
const tried = new Set<'allow' | 'deny'>();

beforeAll(async () => {
  fabric = scope.use(await startFabric({ nodes: { n1: 'a', n2: 'a' } }));
  await fabric.setPools({ vxlanMode: 'Always' });
  await fabric.startAgents({ NETPLUG_POLICY: 'on' });
  store = scope.use(await inside(fabric.store, async () => Promise.resolve(openStoreOn('http://127.0.0.1:2379'))));
  storm = await inside(fabric.store, async () =>
    startStorm({ fabric, store, seed: SEED, pods: SIZE.pods, policies: SIZE.policies }),
  );
}, 180_000);
afterAll(async () => scope.disposeAsync());

it.each(Array.from({ length: SIZE.rounds }, (_, round) => round + 1))(
  `what the kernels enforce is what the evaluator says after round %i (seed ${String(SEED)})`,
  async () => {
    await storm.rage({ changes: SIZE.changes, kills: SIZE.kills });
    const view = await settledView();
    expect([...view.endpoints.values()].map(({ shown }) => shown).toSorted()).toEqual(
      [...storm.pods.keys()].toSorted(),
    );
    expect(storm.pods.size).toBeGreaterThan(SIZE.pods / 4);
    expect(storm.policies.size).toBeGreaterThan(SIZE.policies / 4);
    expect(await wrongConnections(view)).toEqual([]);
  },
  1_200_000,
);

it('tried connections that are allowed, and some that are denied', () => {
  expect([...tried].toSorted()).toEqual(['allow', 'deny']);
});

/** Waits until the table of each node is the one that a new agent would write. Returns what it is made from. */
async function settledView(): Promise<PolicyState> {
  let view: PolicyState | undefined;
  let differences: readonly string[] = [];
  const isSettled = async (): Promise<boolean> => {
    for (const node of fabric.nodes) await node.agent().settled();
    view = await readPolicies(store);
    differences = [];
    for (const { name, netns } of fabric.nodes) {
      const [wanted, actual] = [await desiredTable(view, name), await tableIn(netns)];
      const [isWanted, isActual] = [new Set(wanted), new Set(actual)];
      differences = [
        ...differences,
        ...wanted.filter((line) => !isActual.has(line)).map((line) => `${name} lacks ${line}`),
        ...actual.filter((line) => !isWanted.has(line)).map((line) => `${name} has ${line}`),
      ];
    }
    return differences.length === 0;
  };
  const tell = (): string =>
    `the kernels have the policies:\n${differences.slice(0, SHOWN).join('\n')}\n${fabric.logs()}`;
  await until(isSettled, tell, SETTLED_MS, 500);
  return view!;
}

/** Sends packets between pods of the same node and of different nodes, and compares with the evaluator. */
async function wrongConnections(view: PolicyState): Promise<readonly string[]> {
  const pods = [...storm.pods.values()];
  const pairs = pods.flatMap((from) =>
    pods.flatMap((to) =>
      from === to
        ? []
        : to.addresses.map((address) => ({ from, to, address, expected: verdictOf(view, from.addresses, address) })),
    ),
  );
  const byVerdict = Map.groupBy(pairs, ({ expected }) => expected);
  for (const verdict of byVerdict.keys()) tried.add(verdict);
  const chosen = [...byVerdict.values()].flatMap((each) => evenly(each, SIZE.connections / 2));
  const wrong: string[] = [];
  const next = async (): Promise<void> => {
    for (let pair = chosen.pop(); pair !== undefined; pair = chosen.pop()) {
      const { from, to, address, expected } = pair;
      const answer = (await pingOnce(from.netns, address)) === undefined ? 'allow' : 'deny';
      if (answer !== expected) wrong.push(`${from.name} -> ${to.name} ${address}: ${answer}, expected ${expected}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
  return wrong;
}

/** Returns about so many of the values, or all when there are fewer. */
function evenly<T>(values: readonly T[], count: number): readonly T[] {
  const step = Math.max(1, Math.floor(values.length / count));
  return values.filter((_, index) => index % step === 0);
}

function verdictOf(view: PolicyState, sources: readonly string[], to: string): 'allow' | 'deny' {
  const destination = parseAddress(to);
  const source = sources.map((text) => parseAddress(text)).find(({ family }) => family === destination.family)!;
  const isIpv4 = destination.family === 4;
  const packet = { source, destination, protocol: isIpv4 ? 1 : 58, icmp: { type: isIpv4 ? 8 : 128, code: 0 } };
  const ends = { source: endAt(view, source), destination: endAt(view, destination) };
  return evaluateConnection(view, { ...ends, packet, endpointToHost: 'Accept' }).verdict;
}
