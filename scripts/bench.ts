// ADD and DEL as whole processes, netplug beside Debian's ptp with host-local, alternating in one run on one node.
import { mkdirSync, writeFileSync } from 'node:fs';
import { type Json, startNode, type TestNode } from '../test/support/node.ts';

const SAMPLES = Number(process.env['NETPLUG_BENCH_SAMPLES'] ?? 60);
const WARM_UP = 5;

interface Contestant {
  readonly name: string;
  readonly plugin: string;
  readonly conf: Json;
}
type Verb = 'ADD' | 'DEL';
interface Sample {
  readonly contestant: string;
  readonly verb: Verb;
  readonly ms: number;
  readonly requests: number;
}

const node = await startNode({ durable: true });
try {
  const samples = await measure(node);
  const rows = summarise(samples);
  report(rows);
  mkdirSync('bench', { recursive: true });
  writeFileSync('bench/results.json', `${JSON.stringify({ samples: SAMPLES, rows }, undefined, 2)}\n`);
} finally {
  await node[Symbol.asyncDispose]();
}

async function measure(node: TestNode): Promise<Sample[]> {
  await node.seedPool('v4', '10.65.0.0/16');
  const hostLocal = { type: 'host-local', ranges: [[{ subnet: '10.66.0.0/16' }]], routes: [{ dst: '0.0.0.0/0' }] };
  const contestants: Contestant[] = [
    { name: 'netplug', plugin: 'netplug', conf: node.netconf({ cniVersion: '1.0.0' }) },
    {
      name: 'ptp + host-local',
      plugin: 'ptp',
      conf: { cniVersion: '1.0.0', name: 'ptp-net', type: 'ptp', ipam: hostLocal },
    },
  ];
  const pod = await node.pod();
  const samples: Sample[] = [];
  for (let round = 0; round < WARM_UP + SAMPLES; round += 1) {
    for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) {
      for (const verb of ['ADD', 'DEL'] as const) {
        const before = await etcdRequests(node);
        const startMs = performance.now();
        const { status, stdout } = await node.cni(verb, {
          ...contestant,
          containerId: `bench${String(round)}`,
          netns: pod.path,
        });
        const ms = performance.now() - startMs;
        if (status !== 0) throw new Error(`${contestant.name} ${verb}: ${stdout}`);
        const requests = (await etcdRequests(node)) - before;
        if (round >= WARM_UP) samples.push({ contestant: contestant.name, verb, ms, requests });
      }
    }
  }
  return samples;
}

/** Requests to its key-value service that etcd has answered. */
async function etcdRequests(node: TestNode): Promise<number> {
  const metrics = await node.exec('curl', '-s', 'http://127.0.0.1:2379/metrics');
  const counts = metrics.matchAll(/^grpc_server_handled_total\{.*grpc_service="etcdserverpb.KV".*\} (\d+)$/gm);
  return [...counts].reduce((sum, match) => sum + Number(match[1]), 0);
}

interface Row {
  readonly verb: Verb;
  readonly contestant: string;
  readonly minMs: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly requestsPerCall: number;
  /** Median against ptp's in the same run. */
  readonly ratio: number;
}

function summarise(samples: readonly Sample[]): Row[] {
  const groups = Map.groupBy(samples, ({ verb, contestant }) => `${verb} ${contestant}`);
  const medianOf = (verb: Verb): number => quantile(groups.get(`${verb} ptp + host-local`) ?? [], 0.5);
  return [...groups.values()].map((group) => {
    const { verb, contestant } = group[0]!;
    return {
      verb,
      contestant,
      minMs: quantile(group, 0),
      p50Ms: quantile(group, 0.5),
      p90Ms: quantile(group, 0.9),
      p99Ms: quantile(group, 0.99),
      requestsPerCall: group.reduce((sum, { requests }) => sum + requests, 0) / group.length,
      ratio: Math.round((quantile(group, 0.5) / medianOf(verb)) * 100) / 100,
    };
  });
}

function quantile(group: readonly Sample[], share: number): number {
  const sorted = group.map(({ ms }) => ms).sort((a, b) => a - b);
  return Math.round((sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0) * 10) / 10;
}

function report(rows: readonly Row[]): void {
  const head = ['verb', 'contestant', 'min', 'p50', 'p90', 'p99', 'etcd requests', 'p50 / ptp'];
  const body = rows
    .toSorted((a, b) => `${a.verb} ${a.contestant}`.localeCompare(`${b.verb} ${b.contestant}`))
    .map((row) =>
      [row.verb, row.contestant, row.minMs, row.p50Ms, row.p90Ms, row.p99Ms, row.requestsPerCall, row.ratio].map(
        String,
      ),
    );
  const widths = head.map((word, column) => Math.max(word.length, ...body.map((row) => row[column]?.length ?? 0)));
  for (const row of [head, ...body])
    console.log(row.map((word, column) => word.padEnd(widths[column] ?? 0)).join('  '));
  console.log(
    `\nMilliseconds, whole process started inside the node's namespaces, ${String(SAMPLES)} samples each after warm-up.`,
  );
}
