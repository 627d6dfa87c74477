// What the large policies of one tenant cost the pods of others on the node.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AnyResource } from '../../../src/model/kinds.ts';
import {
  ALLOW_ALL,
  becomesReachable,
  globalPolicy,
  type PolicedNode,
  type PolicedPod,
  startPolicedNode,
} from '../../../test/support/policed-node.ts';
import { until } from '../../../test/support/until.ts';
import { ETCD, inside, openStoreOn } from '../inside.ts';
import { memoryOf } from '../process-usage.ts';
import type { Figure, LatencyRow, MeasureRow } from '../report.ts';
import { summarise } from '../statistics.ts';

const POLICIES = 56;
const ODD_PORTS = Array.from({ length: 32_767 }, (_, index) => 2 * index + 1);
const SETTLE_MS = 30_000;
const CLOSED = globalPolicy('closed', { selector: "netplug/namespace == 'shop'", types: ['Ingress'], ingress: [] });
const WHERE = `beside ${String(POLICIES)} policies of 65 536 ports of one tenant`;

export const measurePolicyTenant: MeasureRow = async ({ samples, candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const policed = scope.use(await startPolicedNode());
  await policed.apply(ALLOW_ALL);
  await policed.add('dev/cli');
  const [client, bystander] = [await policed.add('other/client'), await policed.add('shop/bystander')];
  await becomesReachable(client, bystander, true);
  const figures: Figure[] = [await memoryFigure(policed, 'before')];
  await inside(policed.node, async () => {
    const store = scope.use(openStoreOn(ETCD));
    for (let index = 0; index < POLICIES; index += 1)
      await store.createResource(largePolicy(index), AbortSignal.timeout(60_000));
  });
  const latencies: [LatencyRow, ...LatencyRow[]] = [
    await measureChanges(policed, { client, bystander, samples: Math.min(samples, 10) }),
  ];
  const [{ p50Ms }] = latencies;
  figures.push({
    id: 'policy.tenant.change',
    what: `policy of another namespace in force, p50, ${WHERE}`,
    value: p50Ms,
    unit: 'ms',
  });
  figures.push(await memoryFigure(policed, 'after'));
  await policed.stopAgent('KILL');
  await policed.startAgent();
  await until(async () => (await policed.agent().ask('/readyz')).status === 200, 'the agent is ready');
  latencies.push(await measureChanges(policed, { client, bystander, samples: 1, after: ', after a restart' }));
  figures.push(await memoryFigure(policed, 'restarted'));
  return { latencies, figures };
};

function largePolicy(index: number): AnyResource {
  const nets = [`10.${String(100 + index)}.0.0/16`];
  const rule = { action: 'Allow', protocol: 'TCP', destination: { ports: ODD_PORTS } } as const;
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'NetworkPolicy',
    metadata: { name: `large-${String(index)}`, namespace: 'dev' },
    spec: {
      selector: 'all()',
      types: ['Ingress', 'Egress'],
      ingress: [{ ...rule, source: { nets } }],
      egress: [{ ...rule, destination: { ...rule.destination, nets } }],
    },
  };
}

/** Closes and opens a pod of another namespace, and waits each time until packets meet that. */
async function measureChanges(
  policed: PolicedNode,
  options: {
    readonly client: PolicedPod;
    readonly bystander: PolicedPod;
    readonly samples: number;
    readonly after?: string;
  },
): Promise<LatencyRow> {
  const { client, bystander, samples, after = '' } = options;
  const times: number[] = [];
  for (let round = 0; round < samples; round += 1) {
    for (const isOpen of [false, true]) {
      const startMs = performance.now();
      await (isOpen ? policed.remove('globalnetworkpolicy', 'closed') : policed.apply(CLOSED));
      await becomesReachable(client, bystander, isOpen);
      times.push(performance.now() - startMs);
    }
  }
  const latency = summarise(
    times.map((ms) => ({ ms, cpuMs: 0 })),
    0,
  );
  return { what: `policy of another namespace in force, ${WHERE}${after}`, candidate: 'agent', ...latency };
}

async function memoryFigure({ node }: PolicedNode, when: string): Promise<Figure> {
  await sleep(SETTLE_MS);
  const pid = Number((await node.exec('pgrep', '--full', '^netplug-network')).trim());
  const { rssMb } = await memoryOf(node, pid);
  return {
    id: `policy.tenant.rss.${when}`,
    what: `memory of the network process, ${when}, ${WHERE}`,
    value: rssMb,
    unit: 'MB',
  };
}
