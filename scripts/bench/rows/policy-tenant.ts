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
/** What a large policy of the tenant is made of; each has as many as fit into an object of the API server, or into its limits. */
const KINDS = { ports: '65 536 ports', selectors: '900 selectors', networks: '32 000 networks' } as const;
type Kind = keyof typeof KINDS;
const whereOf = (kind: Kind): string => `beside ${String(POLICIES)} policies of ${KINDS[kind]} of one tenant`;

export const measurePolicyTenant: MeasureRow = async ({ samples, candidates }) => {
  if (!candidates.includes('agent')) return {};
  const findings: { readonly latencies: readonly LatencyRow[]; readonly figures: readonly Figure[] }[] = [];
  for (const kind of Object.keys(KINDS) as Kind[]) findings.push(await measureBeside(kind, samples));
  const [first, ...rest] = findings.flatMap(({ latencies }) => latencies);
  return { latencies: [first!, ...rest], figures: findings.flatMap(({ figures }) => figures) };
};

async function measureBeside(
  kind: Kind,
  samples: number,
): Promise<{ readonly latencies: readonly LatencyRow[]; readonly figures: readonly Figure[] }> {
  await using scope = new AsyncDisposableStack();
  const policed = scope.use(await startPolicedNode());
  await policed.apply(ALLOW_ALL);
  await policed.add('dev/cli');
  const [client, bystander] = [await policed.add('other/client'), await policed.add('shop/bystander')];
  await becomesReachable(client, bystander, true);
  const figures: Figure[] = [await memoryFigure(policed, kind, 'before')];
  await inside(policed.node, async () => {
    const store = scope.use(openStoreOn(ETCD));
    for (let index = 0; index < POLICIES; index += 1)
      await store.createResource(largePolicy(kind, index), AbortSignal.timeout(60_000));
  });
  const pods = { kind, client, bystander };
  const changes = await measureChanges(policed, { ...pods, samples: Math.min(samples, 10) });
  figures.push({
    id: `policy.tenant.${kind}.change`,
    what: `policy of another namespace in force, p50, ${whereOf(kind)}`,
    value: changes.p50Ms,
    unit: 'ms',
  });
  figures.push(await memoryFigure(policed, kind, 'after'));
  await policed.stopAgent('KILL');
  await policed.startAgent();
  await until(async () => (await policed.agent().ask('/readyz')).status === 200, 'the agent is ready');
  const restarted = await measureChanges(policed, { ...pods, samples: 1, after: ', after a restart' });
  figures.push(await memoryFigure(policed, kind, 'restarted'));
  return { latencies: [changes, restarted], figures };
}

function largePolicy(kind: Kind, index: number): AnyResource {
  const nets = [`10.${String(100 + index)}.0.0/16`];
  const rule = { action: 'Allow', protocol: 'TCP', destination: { ports: ODD_PORTS } } as const;
  const rules = {
    ports: {
      ingress: [{ ...rule, source: { nets } }],
      egress: [{ ...rule, destination: { ...rule.destination, nets } }],
    },
    selectors: {
      ingress: Array.from({ length: 900 }, (_, at) => ({
        action: 'Allow' as const,
        source: { selector: `a == '${String(at)}-${String(index)}'` },
      })),
    },
    networks: {
      ingress: [
        {
          action: 'Allow' as const,
          source: {
            nets: Array.from(
              { length: 32_000 },
              (_, at) => `10.${String(100 + index)}.${String(at >> 8)}.${String(at & 255)}/32`,
            ),
          },
        },
      ],
    },
  } as const;
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'NetworkPolicy',
    metadata: { name: `large-${String(index)}`, namespace: 'dev' },
    spec: { selector: 'all()', types: ['Ingress', 'Egress'], ...rules[kind] },
  };
}

/** Closes and opens a pod of another namespace, and waits each time until packets meet that. */
async function measureChanges(
  policed: PolicedNode,
  options: {
    readonly kind: Kind;
    readonly client: PolicedPod;
    readonly bystander: PolicedPod;
    readonly samples: number;
    readonly after?: string;
  },
): Promise<LatencyRow> {
  const { kind, client, bystander, samples, after = '' } = options;
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
  return { what: `policy of another namespace in force, ${whereOf(kind)}${after}`, candidate: 'agent', ...latency };
}

async function memoryFigure({ node }: PolicedNode, kind: Kind, when: string): Promise<Figure> {
  await sleep(SETTLE_MS);
  const pid = Number((await node.exec('pgrep', '--full', '^netplug-network')).trim());
  const { rssMb } = await memoryOf(node, pid);
  return {
    id: `policy.tenant.${kind}.rss.${when}`,
    what: `memory of the network process, ${when}, ${whereOf(kind)}`,
    value: rssMb,
    unit: 'MB',
  };
}
