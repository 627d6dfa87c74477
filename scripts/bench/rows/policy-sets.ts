// What network sets with 100 000 networks, which one pod denies, cost the pods of others on the node and those who ask its agent.
import type { AnyResource } from '../../../src/model/kinds.ts';
import { NETPLUGCTL } from '../../../test/support/built.ts';
import {
  ALLOW_ALL,
  becomesReachable,
  globalPolicy,
  type PolicedNode,
  type PolicedPod,
  startPolicedNode,
} from '../../../test/support/policed-node.ts';
import { ETCD, inside, openStoreOn } from '../inside.ts';
import type { Figure, LatencyRow, MeasureRow } from '../report.ts';
import { summarise } from '../statistics.ts';

const SETS = [0, 1, 2, 3, 4];
const NETWORKS = 20_000;
const WRITE_MS = 60_000;
const CLOSED = globalPolicy('closed', { selector: "netplug/namespace == 'shop'", types: ['Ingress'], ingress: [] });
const DENIES_SETS: AnyResource = {
  apiVersion: 'netplug.io/v3',
  kind: 'NetworkPolicy',
  metadata: { name: 'large', namespace: 'dev' },
  spec: {
    selector: 'all()',
    types: ['Ingress'],
    ingress: [
      { action: 'Deny', source: { selector: "set == 'big'", namespaceSelector: 'global()' } },
      { action: 'Allow' },
    ],
  },
};

interface Measured {
  readonly changesMs: number[];
  readonly answersMs: number[];
  readonly tookMs: number;
}

interface Pods {
  readonly client: PolicedPod;
  readonly bystander: PolicedPod;
  /** The one whose policy denies what is in the sets. */
  readonly target: PolicedPod;
}

export const measurePolicySets: MeasureRow = async ({ candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const policed = scope.use(await startPolicedNode());
  await policed.apply(ALLOW_ALL);
  const target = await policed.add('dev/cli');
  const [client, bystander] = [await policed.add('other/client'), await policed.add('shop/bystander')];
  await becomesReachable(client, bystander, true);
  await becomesReachable(client, target, true);
  const pods = { client, bystander, target };
  const store = await inside(policed.node, async () => Promise.resolve(scope.use(openStoreOn(ETCD))));
  const signal = AbortSignal.timeout(10 * WRITE_MS);
  const written = await measureBeside(policed, pods, {
    isOpen: false,
    change: async () => {
      for (const index of SETS) await store.createResource(largeSet(index), signal);
      await store.createResource(DENIES_SETS, signal);
    },
  });
  const deleted = await measureBeside(policed, pods, {
    isOpen: true,
    change: async () => {
      await store.deleteResource({ kind: 'NetworkPolicy', namespace: 'dev', name: 'large' }, signal);
      for (const index of SETS)
        await store.deleteResource({ kind: 'GlobalNetworkSet', name: largeSet(index).metadata.name }, signal);
    },
  });
  const changesMs = [...written.changesMs, ...deleted.changesMs];
  const answersMs = [...written.answersMs, ...deleted.answersMs];
  const what = 'while 100 000 networks in sets come and go';
  const latencies: LatencyRow[] = [
    { what: `policy of another namespace in force, ${what}`, candidate: 'agent', ...summaryOf(changesMs) },
    { what: `netplugctl node status, ${what}`, candidate: 'agent', ...summaryOf(answersMs) },
  ];
  const figureOf = (id: string, text: string, value: number): Figure => ({
    id: `policy.sets.${id}`,
    what: text,
    value,
    unit: 'ms',
  });
  return {
    latencies,
    figures: [
      figureOf('change', `policy of another namespace in force, longest, ${what}`, Math.max(...changesMs)),
      figureOf('status', `netplugctl node status, longest, ${what}`, Math.max(...answersMs)),
      figureOf('written', 'the sets and their policy in force', written.tookMs),
      figureOf('deleted', 'the sets and their policy gone', deleted.tookMs),
    ],
  };
};

function largeSet(index: number): AnyResource {
  const nets = Array.from({ length: NETWORKS }, (_, at) =>
    at % 2 === 0
      ? `${String(20 + index)}.${String(at >> 8)}.${String(at & 255)}.16/28`
      : `2001:db8:${String(index)}:${at.toString(16)}::/64`,
  );
  const wide = index === 0 ? ['0.0.0.0/0', '::/0', '10.0.0.0/8'] : [];
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'GlobalNetworkSet',
    metadata: { name: `big-${String(index)}`, labels: { set: 'big' } },
    spec: { nets: [...wide, ...nets] },
  };
}

/** Closes and opens the bystander, and asks for the status of the node, until packets meet the change of the sets. */
async function measureBeside(
  policed: PolicedNode,
  { client, bystander, target }: Pods,
  { change, isOpen }: { readonly change: () => Promise<void>; readonly isOpen: boolean },
): Promise<Measured> {
  const startMs = performance.now();
  const changesMs: number[] = [];
  const answersMs: number[] = [];
  const ended = new AbortController();
  const changing = async (): Promise<void> => {
    do {
      for (const opens of [false, true])
        changesMs.push(
          await timed(async () => {
            await (opens ? policed.remove('globalnetworkpolicy', 'closed') : policed.apply(CLOSED));
            await becomesReachable(client, bystander, opens);
          }),
        );
    } while (!ended.signal.aborted);
  };
  const asking = async (): Promise<void> => {
    const { socket } = policed.agent();
    do answersMs.push(await timed(async () => policed.node.run([NETPLUGCTL, 'node', 'status', '--socket', socket])));
    while (!ended.signal.aborted);
  };
  const beside = Promise.all([changing(), asking()]);
  await change();
  await becomesReachable(client, target, isOpen);
  const tookMs = performance.now() - startMs;
  ended.abort();
  await beside;
  return { changesMs, answersMs, tookMs };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

function summaryOf(times: readonly number[]): ReturnType<typeof summarise> {
  return summarise(
    times.map((ms) => ({ ms, cpuMs: 0 })),
    0,
  );
}
