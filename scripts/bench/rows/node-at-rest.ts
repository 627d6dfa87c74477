// What netplug's own processes take on a node that does nothing, with every feature on: policies, BGP, VXLAN and metrics.
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Agent, startAgent } from '../../../test/support/agent.ts';
import { BUILT } from '../../../test/support/built.ts';
import { poolOf } from '../../../test/support/fixtures.ts';
import { startNode, type TestNode } from '../../../test/support/node.ts';
import { until } from '../../../test/support/until.ts';
import { IMAGES } from '../../images/declared.ts';
import { ETCD, inside, openStoreOn } from '../inside.ts';
import { memoryMbOf, networkProcessesOf } from '../process-usage.ts';
import { readAgain } from '../read-again.ts';
import { openRemoteNodes } from '../remote-nodes.ts';
import { namespaceName, openRemotePods } from '../remote-pods.ts';
import type { Figure, MeasureRow } from '../report.ts';
import { openRuntimeCaller, pairs } from '../runtime-caller.ts';

const REMOTE = { nodes: 10, pods: 100, policies: 50 };
/** Calls before the node is at rest. */
const CALLS = 20;
const SETTLE_MS = 120_000;
const DEADLINE_MS = 60_000;
const SOCKET = 'agent/cni.sock';
const POOLS = [
  poolOf('own', '10.48.0.0/16', { vxlanMode: 'Never' }),
  poolOf('tunnelled', '10.49.0.0/16', { vxlanMode: 'Always' }),
];

export const measureNodeAtRest: MeasureRow = async ({ candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const node = scope.use(await startNode({ mode: 'standalone' }));
  const remote = await inside(node, async () => {
    const store = scope.use(openStoreOn(ETCD));
    for (const pool of POOLS) await store.createResource(pool, AbortSignal.timeout(DEADLINE_MS));
    return { nodes: await openRemoteNodes(store), pods: openRemotePods(store) };
  });
  await remote.nodes.growTo(REMOTE.nodes);
  await remote.pods.growTo(REMOTE.pods);
  await remote.pods.addPolicies(REMOTE.policies);
  const runDir = dirname(join(node.dir, SOCKET));
  const starter = await node.start([join(BUILT, 'netplug-bird')], { env: { NETPLUG_RUN_DIR: runDir } });
  scope.defer(async () => starter.stop());
  readAgain(join(BUILT, 'netplug-agent'));
  const agent = scope.use(
    await startAgent(node, {
      socket: join(node.dir, SOCKET),
      env: {
        ...IMAGES['netplug-node'].env,
        NETPLUG_POLICY: 'on',
        NETPLUG_BIRD: 'external',
        NETPLUG_METRICS_ADDRESS: '127.0.0.1:9091',
      },
    }),
  );
  await until(async () => (await birdsOf(node, starter.pid)).length > 0, 'BIRD runs');
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespaceName(0)};K8S_POD_NAME=resting`;
  await pairs(await openRuntimeCaller(node, agent, { scope, args }), CALLS);
  await sleep(SETTLE_MS);
  return { figures: await memoryFigures(node, agent, starter.pid) };
};

async function memoryFigures(node: TestNode, agent: Agent, starter: number): Promise<Figure[]> {
  const pssOf = async (pids: readonly number[]): Promise<number> => {
    const each = await Promise.all(pids.map(async (pid) => memoryMbOf(node, pid, 'Pss')));
    return each.reduce((sum, mb) => sum + mb, 0);
  };
  const calls = await pssOf([agent.pid]);
  const network = await pssOf(await networkProcessesOf(node, agent.pid));
  const bird = await pssOf([starter]);
  const figure = (name: string, what: string, value: number): Figure => ({
    id: `rest.pss${name}`,
    what: `a node at rest with every feature on, ${what}, shared pages by share`,
    value,
    unit: 'MB',
  });
  return [
    figure('', "all of netplug's processes", calls + network + bird),
    figure('.calls', 'the process that serves calls', calls),
    figure('.network', 'the network process', network),
    figure('.bird', 'netplug-bird', bird),
    figure('.BIRD', 'BIRD beside it', await pssOf(await birdsOf(node, starter))),
  ];
}

async function birdsOf(node: TestNode, starter: number): Promise<readonly number[]> {
  const { stdout } = await node.run(['pgrep', '--parent', String(starter)]);
  return stdout.split('\n').flatMap((line) => (line === '' ? [] : Number(line)));
}
