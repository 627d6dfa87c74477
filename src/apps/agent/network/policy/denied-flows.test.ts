import { expect, it } from 'vitest';
import { until } from '../../../../../test/support/until.ts';
import { PolicyCluster, NODE } from '../../../../../test/support/policy-cluster.ts';
import { TestClock } from '../../../../../test/support/enforcement-host.ts';
import { MemoryPolicyFilter } from '../../../../../test/support/memory/memory-policy-filter.ts';
import { silentLog } from '../../../../base/log.ts';
import type { FlowTable, TrackedFlow } from '../../../../dataplane/flow-table.ts';
import type { FilterTable } from '../../../../dataplane/policy-filter.ts';
import { parseAddress } from '../../../../net/address.ts';
import { ENDED_SETS } from '../../../../policy/ruleset/ended-flows.ts';
import { POLICY_TABLE } from '../../../../policy/ruleset/policy-ruleset.ts';
import { DeniedFlows } from './denied-flows.ts';

const [SHOP, DEV] = ['10.0.0.1', '10.0.0.2'];
const FLOOD = 30_000;

function flowOf(source: string, index: number): TrackedFlow {
  const [own, server] = [parseAddress(source), parseAddress(`10.9.${String(index >> 14)}.1`)];
  const [sourcePort, destinationPort] = [1024 + (index & 16_383), 80];
  return {
    original: { source: own, destination: server, protocol: 6, sourcePort, destinationPort },
    reply: { source: server, destination: own, protocol: 6, sourcePort: 80, destinationPort: sourcePort },
    isReplied: true,
    handle: Buffer.from(`${source} ${String(index)}`),
  };
}

const cluster = new PolicyCluster();
for (const [namespace, address] of [
  ['shop', SHOP],
  ['dev', DEV],
] as const) {
  cluster.putNamespace(namespace);
  cluster.putPod({ namespace, name: 'pod', addresses: [address], interfaceName: `npl${namespace}` });
}

/** Flows that the kernel tracks, and in which order they were ended. */
class Tracked implements Pick<FlowTable, 'list' | 'end' | 'endAll'> {
  flows: readonly TrackedFlow[] = [];
  readonly ended: TrackedFlow[] = [];

  list = async (): Promise<readonly TrackedFlow[]> => Promise.resolve(this.flows);
  endAll = async (): Promise<void> => Promise.resolve();
  end = async (flows: readonly TrackedFlow[]): Promise<number> => {
    this.ended.push(...flows);
    return Promise.resolve(flows.length);
  };
}

async function examined(filter: MemoryPolicyFilter, tracked: Tracked): Promise<void> {
  const stop = new AbortController();
  const done = Promise.withResolvers<void>();
  const log = { ...silentLog, info: () => done.resolve(), warning: () => done.reject(new Error('not dropped')) };
  const denied = new DeniedFlows(
    {
      clock: new TestClock(),
      log,
      flowTable: () => tracked,
      filter: () => filter,
      judge: async () => Promise.resolve(() => 'denied'),
      whole: async () => Promise.resolve(),
      isKept: () => false,
    },
    NODE,
    cluster.state,
  );
  const running = denied.run(stop.signal);
  denied.trigger();
  await done.promise;
  stop.abort();
  await running;
}

it('cuts the flow of a pod, which stays cut, while another namespace ends more flows than the kernel takes', async () => {
  const tables = new Map<string, FilterTable>();
  const filter = new MemoryPolicyFilter(tables);
  await filter.apply(
    { name: POLICY_TABLE, chains: new Map(), sets: ENDED_SETS },
    { signal: new AbortController().signal },
  );
  const flood = Array.from({ length: FLOOD }, (_, index) => flowOf(DEV, index));
  const first = new Tracked();
  first.flows = [...flood, flowOf(SHOP, 0)];
  await examined(filter, first);
  expect(first.ended).toHaveLength(FLOOD + 1);
  expect(first.ended.findIndex(({ original }) => original.source.value === parseAddress(SHOP).value)).toBeLessThan(10);
  // Another process of the same node.
  const second = new Tracked();
  second.flows = flood.map((flow, index) => ({ ...flow, ...flowOf(DEV, index + FLOOD) }));
  await examined(filter, second);
  const ended = [...(tables.get(POLICY_TABLE)?.sets.get('ended-v4')?.elements.keys() ?? [])];
  expect(ended.filter((text) => text.startsWith(`${SHOP} `))).toHaveLength(1);
  expect(ended.length).toBeLessThan(20_000);
  expect([...(tables.get(POLICY_TABLE)?.sets.get('cut-v4')?.elements.keys() ?? [])]).toEqual([DEV]);
});

it('cuts off the peer of a host endpoint whose flow made room for those of another peer', async () => {
  const spec = { node: NODE, interfaceName: 'eth0', expectedIPs: ['10.9.0.1', '10.9.1.1'] };
  const own = { apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata: { name: 'own' }, spec } as const;
  cluster.put(own);
  const tables = new Map<string, FilterTable>();
  const filter = new MemoryPolicyFilter(tables);
  await filter.apply(
    { name: POLICY_TABLE, chains: new Map(), sets: ENDED_SETS },
    { signal: new AbortController().signal },
  );
  const tracked = new Tracked();
  tracked.flows = [flowOf('192.0.2.7', 0), ...Array.from({ length: FLOOD }, (_, index) => flowOf('192.0.2.8', index))];
  await examined(filter, tracked);
  cluster.remove(own);
  const cut = [...(tables.get(POLICY_TABLE)?.sets.get('cut-v4')?.elements.keys() ?? [])];
  expect(cut.toSorted()).toEqual(['192.0.2.7', '192.0.2.8']);
});

it('drops what has ended again, and ends what came back, after another program removed the table', async () => {
  const { signal } = new AbortController();
  const table: FilterTable = { name: POLICY_TABLE, chains: new Map(), sets: ENDED_SETS };
  const tables = new Map([[POLICY_TABLE, table]]);
  const tracked = new Tracked();
  const denied = flowOf(SHOP, 0);
  tracked.flows = [denied];
  const clock = new TestClock();
  let verdict: 'denied' | 'allowed' = 'denied';
  const flows = new DeniedFlows(
    {
      clock,
      log: silentLog,
      flowTable: () => tracked,
      filter: () => new MemoryPolicyFilter(tables),
      judge: async () => Promise.resolve(() => verdict),
      whole: async () => Promise.resolve(),
      isKept: () => false,
    },
    NODE,
    cluster.state,
  );
  const stop = new AbortController();
  const running = flows.run(stop.signal);
  const elements = (): readonly string[] => [
    ...(tables.get(POLICY_TABLE)?.sets.get('ended-v4')?.elements.keys() ?? []),
  ];
  flows.trigger();
  await until(() => tracked.ended.length === 1, 'the denied flow has ended');
  const dropped = elements();
  expect(dropped).toHaveLength(2);

  tables.delete(POLICY_TABLE);
  await new MemoryPolicyFilter(tables).apply(table, { signal });
  expect(elements()).toEqual([]);
  // The server may send to the pod; and the pod may open the connection again.
  verdict = 'allowed';
  const revived = { ...denied, original: denied.reply, reply: denied.original };
  tracked.flows = [denied, revived];
  await clock.pass(1000);
  flows.restore();
  await until(() => tracked.ended.length > 1, 'the flow has ended again');

  expect(tracked.ended.slice(1)).toEqual([revived]);
  expect(elements().toSorted()).toEqual([...dropped].toSorted());
  stop.abort();
  await running;
});
