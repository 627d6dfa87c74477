// ADD and DEL on a node with many policies, beside nodes with none and with enforcement off.
import { type Agent, startAgent } from '../../../test/support/agent.ts';
import { startNode, type TestNode } from '../../../test/support/node.ts';
import { inTurn } from '../attach-rounds.ts';
import { ETCD, inside, openStoreOn } from '../inside.ts';
import { openRemotePods } from '../remote-pods.ts';
import { cpuMsOf } from '../process-usage.ts';
import { type Finding, ratio, type RowOptions } from '../report.ts';
import { openRuntimeCaller, pairs, type RuntimeCaller } from '../runtime-caller.ts';
import { summarise } from '../statistics.ts';
import type { Run } from '../launcher.ts';

const PODS = 1000;
const POLICIES = 1000;
/** Pairs of ADD and DEL in one turn of one way. */
const TURN = 20;
const DEADLINE_MS = 60_000;

export interface PolicyWay {
  readonly name: 'off' | 'none' | 'many';
  readonly what: string;
  readonly node: TestNode;
  readonly agent: Agent;
  readonly caller: RuntimeCaller;
}

export async function measurePolicyAdd({ samples, candidates }: RowOptions): Promise<Finding> {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const ways = await openPolicyWays(scope);
  const runs = new Map(ways.map(({ name }) => [name, { ADD: [] as Run[], DEL: [] as Run[], cpuMs: 0 }]));
  // The first turn of each is warm-up.
  for (let round = 0; round <= Math.ceil(samples / TURN); round += 1) {
    for (const { name, node, agent, caller } of inTurn(ways, round)) {
      const before = await cpuMsOf(node, agent.pid);
      const done = await pairs(caller, TURN);
      const of = runs.get(name);
      if (of === undefined || round === 0) continue;
      of.ADD.push(...done.ADD);
      of.DEL.push(...done.DEL);
      of.cpuMs += (await cpuMsOf(node, agent.pid)) - before;
    }
  }
  const verbs = ['ADD', 'DEL'] as const;
  const latencyOf = (name: PolicyWay['name'], verb: 'ADD' | 'DEL'): ReturnType<typeof summarise> => {
    const { [verb]: calls, cpuMs } = runs.get(name) ?? { ADD: [], DEL: [], cpuMs: 0 };
    // The agent's share for a pair is halved.
    return summarise(calls, cpuMs / 2);
  };
  return {
    latencies: ways.flatMap(({ name, what }) =>
      verbs.map((verb) => ({ what: `${verb}, ${what}`, candidate: 'agent', ...latencyOf(name, verb) })),
    ),
    figures: verbs.flatMap((verb) =>
      (['off', 'none'] as const).flatMap((base) =>
        ratio(
          { id: `policy.${verb}.${base}`, what: `${verb} p50 with ${String(POLICIES)} policies / policies ${base}` },
          latencyOf('many', verb).p50Ms,
          latencyOf(base, verb).p50Ms,
        ),
      ),
    ),
  };
}

/** Opens a node for each way, with its agent. */
export async function openPolicyWays(scope: AsyncDisposableStack): Promise<readonly PolicyWay[]> {
  return [
    await openWay('off', 'policies off', scope),
    await openWay('none', 'no policies', scope),
    await openWay('many', `${String(POLICIES)} policies and ${String(PODS)} pods`, scope),
  ];
}

async function openWay(name: PolicyWay['name'], what: string, scope: AsyncDisposableStack): Promise<PolicyWay> {
  const node = scope.use(await startNode({ durable: true, mode: 'standalone' }));
  await node.seedPool('own', '10.48.0.0/16');
  const store = await inside(node, async () => {
    const opened = scope.use(openStoreOn(ETCD));
    await opened.ping(AbortSignal.timeout(DEADLINE_MS));
    return opened;
  });
  const remote = openRemotePods(store);
  if (name === 'many') {
    await remote.growTo(PODS);
    await remote.addPolicies(POLICIES);
  }
  const agent = scope.use(await startAgent(node, { env: { NETPLUG_POLICY: name === 'off' ? 'off' : 'on' } }));
  // In the first namespace of the remote pods.
  const caller = await openRuntimeCaller(node, agent, {
    scope,
    args: 'IgnoreUnknown=1;K8S_POD_NAMESPACE=ns0;K8S_POD_NAME=beside',
  });
  return { name, what, node, agent, caller };
}
