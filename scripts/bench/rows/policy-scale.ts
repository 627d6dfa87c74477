// What policies of a large cluster cost one node: from a write to its kernel, CPU while pods come and go elsewhere, memory.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AnyResource } from '../../../src/model/kinds.ts';
import type { Agent } from '../../../test/support/agent.ts';
import type { TestNode } from '../../../test/support/node.ts';
import { startPolicedNode } from '../../../test/support/policed-node.ts';
import { ETCD, inside, openStoreOn } from '../inside.ts';
import {
  FIRST_SINGLE,
  namespaceName,
  namespaceOf,
  openRemotePods,
  podAddress,
  type RemotePods,
} from '../remote-pods.ts';
import { cpuMsOf, memoryOf } from '../process-usage.ts';
import { type Figure, type LatencyRow, type MeasureRow, ratio } from '../report.ts';
import { summarise } from '../statistics.ts';

const SIZES = [100, 1000, 10_000];
const POLICIES = 1000;
const LOCAL_PODS = 10;
const MOST_SAMPLES = 50;
const CHURN_PER_SECOND = 100;
const CHURN_S = 20;
const SETTLE_MS = 30_000;
const ARRIVAL_MS = 120_000;
const TICKS_PER_SECOND = 10;
/** Namespace that gets a label, and one of its pods. */
const MARKED = 2;

/** What the kernel tells of the table. */
interface RulesetWatch extends AsyncDisposable {
  /** Settles when a line begins with the verb and has the address; says when. */
  arrival(verb: 'add' | 'delete', address: string): Promise<number>;
}

interface RuntimeCaller {
  readonly node: TestNode;
  readonly agent: Agent;
}

/** One kind of change, which the kernel shows by an address. */
interface ChangeKind {
  readonly name: string;
  readonly address: (round: number) => string;
  readonly write: (round: number) => Promise<unknown>;
  /** Also waited for, when the kernel shows it. */
  readonly undo?: (round: number) => Promise<unknown>;
}

export const measurePolicyScale: MeasureRow = async ({ samples, candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const policed = scope.use(await startPolicedNode());
  const { node } = policed;
  const caller: RuntimeCaller = { node, agent: policed.agent() };
  const remote = await inside(node, async () => {
    const store = scope.use(openStoreOn(ETCD));
    await store.ping(AbortSignal.timeout(ARRIVAL_MS));
    return openRemotePods(store);
  });
  await remote.growTo(SIZES[0] ?? 0);
  await remote.addPolicies(POLICIES);
  for (let index = 0; index < LOCAL_PODS; index += 1) await policed.add(`${namespaceName(index)}/local`);
  await remote.put(allowing('marked-namespace', { selector: "marked == 'yes'" }));
  const watch = scope.use(await watchRuleset(node));
  const latencies: LatencyRow[] = [];
  const figures: Figure[] = [];
  for (const size of SIZES) {
    await remote.growTo(size);
    await caller.agent.settled();
    for (const kind of kindsOf(remote))
      latencies.push(await measureChanges(caller, { kind, size, watch, samples: Math.min(samples, MOST_SAMPLES) }));
    figures.push(...(await measureChurn(caller, { remote, size })));
    figures.push(...(await memoryFigures(caller, size)));
  }
  const p50 = (name: string, size: number | undefined): number | undefined =>
    latencies.find(({ what }) => what === shownOf(name, size ?? 0))?.p50Ms;
  for (const { name } of kindsOf(remote))
    figures.push(
      ...ratio(
        {
          id: `policy.write.${name}`,
          what: `${name} to the kernel, p50, ${String(SIZES.at(-1))} / ${String(SIZES[0])} pods`,
        },
        p50(name, SIZES.at(-1)),
        p50(name, SIZES[0]),
      ),
    );
  return { latencies, figures };
};

function shownOf(name: string, size: number): string {
  return `${name} to the kernel, ${String(size)} pods and ${String(POLICIES)} policies`;
}

function kindsOf(remote: RemotePods): readonly ChangeKind[] {
  return [
    {
      name: 'pod',
      address: (round) => podAddress(singlePod(round)),
      write: async (round) => remote.start(singlePod(round)),
      undo: async (round) => remote.end(singlePod(round)),
    },
    {
      name: 'policy',
      address: (round) => `198.51.100.${String(round)}`,
      write: async (round) => remote.put(allowing('marked-policy', { nets: [`198.51.100.${String(round)}/32`] })),
    },
    {
      name: 'namespace label',
      address: () => podAddress(MARKED),
      write: async () => remote.put(namespaceOf(MARKED, { marked: 'yes' })),
      undo: async () => remote.put(namespaceOf(MARKED)),
    },
  ];
}

/** Of a team that policies of local pods allow. */
function singlePod(round: number): number {
  return FIRST_SINGLE + 100 * round;
}

/** For the local pod of the first namespace. */
function allowing(
  name: string,
  source: { readonly nets?: readonly string[]; readonly selector?: string },
): AnyResource {
  const spec = {
    selector: `netplug/namespace == '${namespaceName(0)}'`,
    types: ['Ingress' as const],
    ingress: [{ action: 'Allow' as const, source }],
  };
  return { apiVersion: 'netplug.io/v3', kind: 'GlobalNetworkPolicy', metadata: { name }, spec };
}

async function measureChanges(
  { node, agent }: RuntimeCaller,
  options: { readonly kind: ChangeKind; readonly size: number; readonly watch: RulesetWatch; readonly samples: number },
): Promise<LatencyRow> {
  const { kind, size, watch, samples } = options;
  const times: number[] = [];
  let cpuMs = 0;
  for (let round = 0; round < samples; round += 1) {
    const cpuBeforeMs = await cpuMsOf(node, agent.pid);
    const startMs = performance.now();
    const [endMs] = await Promise.all([watch.arrival('add', kind.address(round)), kind.write(round)]);
    times.push(endMs - startMs);
    cpuMs += (await cpuMsOf(node, agent.pid)) - cpuBeforeMs;
    if (kind.undo !== undefined) await Promise.all([watch.arrival('delete', kind.address(round)), kind.undo(round)]);
  }
  const latency = summarise(
    times.map((ms) => ({ ms, cpuMs: 0 })),
    cpuMs,
  );
  return { what: shownOf(kind.name, size), candidate: 'agent', ...latency };
}

/** Pods start at an even rate and end a second later; what an unsteady machine delays is in no figure. */
async function measureChurn(
  { node, agent }: RuntimeCaller,
  { remote, size }: { readonly remote: RemotePods; readonly size: number },
): Promise<Figure[]> {
  const before = await cpuMsOf(node, agent.pid);
  const startMs = performance.now();
  for (let tick = 0; tick < CHURN_S * TICKS_PER_SECOND; tick += 1) {
    const perTick = CHURN_PER_SECOND / TICKS_PER_SECOND;
    const numbers = Array.from({ length: perTick }, (_, index) => FIRST_SINGLE + tick * perTick + index);
    await Promise.all([
      ...numbers.map(async (number) => remote.start(number)),
      ...numbers
        .map((number) => number - CHURN_PER_SECOND)
        .map(async (number) => number < FIRST_SINGLE || remote.end(number)),
    ]);
    await sleep(Math.max(0, startMs + ((tick + 1) * 1000) / TICKS_PER_SECOND - performance.now()));
  }
  await agent.settled();
  const cpuMs = (await cpuMsOf(node, agent.pid)) - before;
  const last = FIRST_SINGLE + CHURN_S * CHURN_PER_SECOND;
  for (let number = last - CHURN_PER_SECOND; number < last; number += 1) await remote.end(number);
  return [
    {
      id: `policy.churn.${String(size)}`,
      what: `CPU of the agent while ${String(CHURN_PER_SECOND)} pods per second come and go elsewhere, ${String(size)} pods`,
      value: (100 * cpuMs) / (CHURN_S * 1000),
      unit: '% of a core',
    },
  ];
}

async function memoryFigures({ node, agent }: RuntimeCaller, size: number): Promise<Figure[]> {
  await sleep(SETTLE_MS);
  const { rssMb, pssMb } = await memoryOf(node, agent.pid);
  const what = `memory of the agent's two processes, ${String(size)} pods and ${String(POLICIES)} policies`;
  return [
    { id: `policy.rss.${String(size)}`, what, value: rssMb, unit: 'MB' },
    { id: `policy.pss.${String(size)}`, what: `${what}, shared pages by share`, value: pssMb, unit: 'MB' },
  ];
}

async function watchRuleset({ host }: Pick<TestNode, 'host'>): Promise<RulesetWatch> {
  const monitor = spawn('nsenter', [`--net=${host.path}`, 'nft', 'monitor']);
  const waiting = new Map<string, { readonly pattern: RegExp; readonly found: (atMs: number) => void }>();
  monitor.stdout.setEncoding('utf8');
  createInterface({ input: monitor.stdout }).on('line', (line) => {
    for (const [key, { pattern, found }] of waiting) {
      if (!pattern.test(line)) continue;
      waiting.delete(key);
      found(performance.now());
    }
  });
  await once(monitor, 'spawn');
  return {
    arrival: async (verb, address) => {
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      const key = `${verb} ${address}`;
      const pattern = new RegExp(String.raw`^${verb} .*\b${address.replaceAll('.', String.raw`\.`)}\b`);
      waiting.set(key, { pattern, found: resolve });
      const late = setTimeout(() => reject(new Error(`the kernel does not ${key}`)), ARRIVAL_MS);
      return promise.finally(() => clearTimeout(late));
    },
    [Symbol.asyncDispose]: async () => {
      monitor.kill();
      await once(monitor, 'exit');
    },
  };
}
