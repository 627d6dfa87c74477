// netplug-typha with a thousand clients: from a write at the API to the last of them, and what the server needs for it. The API is
// a replayed stream, the server a process of its own, the clients are in this one.
import { setTimeout as sleep } from 'node:timers/promises';
import { watchedByAgent, watchesOfFleet } from '../../../test/support/agent-watches.ts';
import { ApplyingClient, CountingSwarm } from '../../../test/support/follow-swarm.ts';
import { connectedStore, LeasesInMemory } from '../../../test/support/typha-over-tls.ts';
import { until } from '../../../test/support/until.ts';
import { CLUSTER } from '../fan-out-cluster.ts';
import { type FanOutProcess, type ServerUsage, startFanOutProcess } from '../fan-out-process.ts';
import type { Figure, MeasureRow } from '../report.ts';
import { quantile } from '../statistics.ts';

const CLIENTS = 1000;
const SIZE = `${String(CLUSTER.pods)} pods, as many endpoints and ${String(CLUSTER.policies)} policies`;
const PODS_PER_SECOND = 100;
const MOST_WRITES = 100;
/** Longer than a flush period of so many clients, and not in step with it. */
const BETWEEN_WRITES_MS = 230;
const IDLE_MS = 20_000;
/** Until V8 has collected the garbage of what came before. */
const SETTLE_MS = 6000;
/** Until pods of the first second have ended. */
const WARM_UP_MS = 6000;
const STOPPED = 200;
const STOPPED_MS = 12_000;
const APPLYING = 20;
/** All of them read each change in this process. */
const APPLIED_PODS_PER_SECOND = 20;
const KB_PER_MB = 1024;
const BYTES_PER_MB = 1e6;

export const measureFanOut: MeasureRow = async ({ samples, candidates }) => {
  if (!candidates.includes('agent')) return {};
  const writes = Math.min(samples, MOST_WRITES);
  await using server = await startFanOutProcess();
  await until(async () => server.isLoaded(), 'the server has read the cluster');
  const loaded = await server.collect();
  const entry = await server.entry();
  const figures: Figure[] = [
    ...watchFigures(),
    ...figure('read.cpu', `CPU to read ${SIZE} from the API`, loaded.cpuMs, 'ms'),
    ...figure('read.rss', 'memory of the server then', loaded.rssMb, 'MB'),
    ...figure('read.heap', 'of which objects of JavaScript', loaded.heapMb, 'MB'),
  ];
  {
    using swarm = new CountingSwarm(entry);
    figures.push(...(await measureSnapshot(server, swarm)));
    figures.push(...(await measureStorm(server, swarm)));
    const idlePercent = await measureIdle(server);
    figures.push(
      ...figure('idle', `CPU of the server, ${String(CLIENTS)} clients, nothing changes`, idlePercent, '% of a core'),
    );
    figures.push(...(await measureQuiet(server, swarm, { writes, idlePercent })));
    figures.push(...(await measureChurn(server, swarm, writes)));
    figures.push(...(await measureStopped(server, swarm)));
  }
  figures.push(...(await measureApplied(server)));
  const builtMs = figures.find(({ id }) => id === 'fan-out.snapshot.build')?.value ?? Number.NaN;
  figures.push(...figure('snapshot.cpu', 'the same with conversion', builtMs + (await server.convert()), 'ms'));
  return { figures };
};

/** Counts the watches of what the processes of an agent follow. */
function watchFigures(): readonly Figure[] {
  return [
    ...figure('watches', 'watches of the API per agent, policies on', watchedByAgent().length, ''),
    ...figure('watches.1000', 'watches of the API, 1000 agents and 3 servers', watchesOfFleet(1000, 3), ''),
    ...figure('watches.5000', 'watches of the API, 5000 agents and 11 servers', watchesOfFleet(5000, 11), ''),
  ];
}

/** The first client, alone: what it receives is built for it, and kept for a while for others. */
async function measureSnapshot(server: FanOutProcess, swarm: CountingSwarm): Promise<readonly Figure[]> {
  const before = await server.usage();
  await swarm.connect(1);
  await until(() => swarm.counts.complete === 1, 'the first client is complete');
  const buildMs = (await server.usage()).cpuMs - before.cpuMs;
  return [
    ...figure('snapshot.bytes', `snapshot of ${SIZE}`, swarm.counts.bytes / BYTES_PER_MB, 'MB'),
    ...figure('snapshot.build', 'CPU to build and send it once, with TLS', buildMs, 'ms'),
  ];
}

async function measureStorm(server: FanOutProcess, swarm: CountingSwarm): Promise<readonly Figure[]> {
  const before = await server.collect();
  const beganNs = process.hrtime.bigint();
  await swarm.connect(CLIENTS - swarm.counts.connected);
  await until(() => swarm.counts.complete === CLIENTS, 'all clients are complete');
  const after = await server.usage();
  await sleep(SETTLE_MS);
  const settled = await server.collect();
  const what = `${String(CLIENTS)} clients connect at once`;
  return [
    ...figure('storm', `${what}, all complete`, Number(swarm.completeNs - beganNs) / 1e9, 's'),
    ...figure('storm.cpu', `${what}, CPU of the server`, (after.cpuMs - before.cpuMs) / 1000, 's'),
    ...figure('storm.lists', `${what}, lists at the API`, after.api.lists - before.api.lists, ''),
    ...figure('storm.failed', `${what}, tries that failed`, swarm.counts.failed, ''),
    ...figure('client.rss', 'memory of the server per idle client', perClientKb(before, settled, CLIENTS - 1), 'KB'),
  ];
}

async function measureIdle(server: FanOutProcess): Promise<number> {
  const before = await server.usage();
  await sleep(IDLE_MS);
  return (100 * ((await server.usage()).cpuMs - before.cpuMs)) / IDLE_MS;
}

async function measureQuiet(
  server: FanOutProcess,
  swarm: CountingSwarm,
  { writes, idlePercent }: { readonly writes: number; readonly idlePercent: number },
): Promise<readonly Figure[]> {
  const beganMs = performance.now();
  const before = await server.usage();
  const times = await timesOfWrites(server, swarm, { writes, name: 'quiet' });
  const cpuMs = (await server.usage()).cpuMs - before.cpuMs - ((performance.now() - beganMs) * idlePercent) / 100;
  return [
    ...timeFigures('quiet', `a write at the API to the last of ${String(CLIENTS)} clients`, times),
    ...figure('change.cpu', 'CPU of the server per change and client', (cpuMs * 1000) / (writes * CLIENTS), 'µs'),
  ];
}

async function measureChurn(server: FanOutProcess, swarm: CountingSwarm, writes: number): Promise<readonly Figure[]> {
  await server.churn(PODS_PER_SECOND);
  await sleep(WARM_UP_MS);
  const beganMs = performance.now();
  const before = await server.usage();
  const times = await timesOfWrites(server, swarm, { writes, name: 'churn' });
  const after = await server.usage();
  const passedMs = performance.now() - beganMs;
  const what = `${String(PODS_PER_SECOND)} pods a second come and go`;
  return [
    ...timeFigures('churn', `the same while ${what}`, times),
    ...figure(
      'churn.events',
      `events of the API while ${what}`,
      ((after.api.events - before.api.events) * 1000) / passedMs,
      '/s',
    ),
    ...figure(
      'churn.bytes',
      `bytes of the API while ${what}`,
      (after.api.eventBytes - before.api.eventBytes) / passedMs,
      'kB/s',
    ),
    ...figure(
      'churn.cpu',
      `CPU of the server, ${String(CLIENTS)} clients, ${what}`,
      (100 * (after.cpuMs - before.cpuMs)) / passedMs,
      '% of a core',
    ),
    ...figure('rss', `memory of the server, ${String(CLIENTS)} clients, ${what}`, after.rssMb, 'MB'),
    ...figure('rss.peak', 'the most that it ever was', after.peakMb, 'MB'),
  ];
}

/** While the pods go on. */
async function measureStopped(server: FanOutProcess, swarm: CountingSwarm): Promise<readonly Figure[]> {
  const before = await server.collect();
  swarm.stopReading(STOPPED);
  await sleep(STOPPED_MS);
  const after = await server.collect();
  await server.churn(0);
  if (after.clients < CLIENTS) throw new Error(`${String(CLIENTS - after.clients)} clients were ended`);
  return figure(
    'stopped.rss',
    'further memory of the server per client that stops reading',
    perClientKb(before, after, STOPPED),
    'KB',
  );
}

/** Clients that apply everything while pods come and go have what a follower of the API has. */
async function measureApplied(server: FanOutProcess): Promise<readonly Figure[]> {
  const leases = new LeasesInMemory();
  const entry = await server.entry();
  await leases.write({ entry, release: '1.0.0', clients: 0, oldestClient: undefined, renewedMs: 0 });
  await server.churn(APPLIED_PODS_PER_SECOND);
  const clients: ApplyingClient[] = [];
  // One after the other: each reads all records in this process.
  while (clients.length < APPLYING) {
    const client = new ApplyingClient(connectedStore(leases, { node: `elsewhere-${String(clients.length)}` }));
    clients.push(client);
    await until(() => client.isComplete, 'an applying client is complete');
  }
  await sleep(WARM_UP_MS);
  await server.churn(0);
  await sleep(SETTLE_MS);
  const expected = await server.digest();
  let different = 0;
  for (const client of clients) {
    const { count, hash } = client.digest();
    if (count !== expected.count || hash !== expected.hash) different += 1;
    await client.end();
    // The others must not take their server for silent.
    await sleep(20);
  }
  return figure(
    'applied.different',
    `clients of ${String(APPLYING)} that do not have the records of the API afterwards`,
    different,
    '',
  );
}

async function timesOfWrites(
  server: FanOutProcess,
  swarm: CountingSwarm,
  { writes, name }: { readonly writes: number; readonly name: string },
): Promise<readonly number[]> {
  const times: number[] = [];
  for (let round = 0; round < writes; round += 1) {
    const mark = `mark-of-${name}-${String(round)}.`;
    const [arrivals, writtenNs] = await Promise.all([swarm.arrivals(mark), server.write(mark)]);
    times.push(Number((arrivals.at(-1) ?? 0n) - writtenNs) / 1e6);
    await sleep(BETWEEN_WRITES_MS);
  }
  return times;
}

function timeFigures(id: string, what: string, times: readonly number[]): readonly Figure[] {
  return [
    ...figure(`${id}.p50`, `${what}, p50`, quantile(times, 0.5), 'ms'),
    ...figure(`${id}.p99`, `${what}, p99`, quantile(times, 0.99), 'ms'),
  ];
}

function perClientKb(before: ServerUsage, after: ServerUsage, clients: number): number {
  return ((after.rssMb - before.rssMb) * KB_PER_MB) / clients;
}

function figure(id: string, what: string, value: number, unit: string): readonly Figure[] {
  return [{ id: `fan-out.${id}`, what, value, unit }];
}
