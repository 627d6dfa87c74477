// netplug-sidecar: how long a check takes, what it costs, and what the program takes, fed by the agent's own code.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SidecarSession } from '../../../src/apps/agent/network/sidecars/sidecar-session.ts';
import { FedSets } from '../../../src/policy/feed/fed-sets.ts';
import { AGENT_SOCKET } from '../../../src/policy/feed/messages.ts';
import { SidecarFeed } from '../../../src/policy/feed/sidecar-feed.ts';
import { FORMAT_1 } from '../../../src/policy/feed/wire-rule.ts';
import { SIDECAR } from '../../../test/support/built.ts';
import { newNetns, type TestNetns } from '../../../test/support/netns.ts';
import { globalPolicy } from '../../../test/support/policy-arbitraries.ts';
import { PolicyCluster } from '../../../test/support/policy-cluster.ts';
import { within } from '../../../test/support/tcp-echo.ts';
import { until } from '../../../test/support/until.ts';
import { MALLOC } from '../../images/declared.ts';
import type { ChecksAsked } from '../ask-checks.ts';
import { cpuMsIn } from '../process-usage.ts';
import { readAgain } from '../read-again.ts';
import type { Figure, Finding, RowOptions } from '../report.ts';
import { quantile } from '../statistics.ts';

const POLICIES = 50;
/** The scale at which the peer was measured. */
const MANY = { policies: 294, rules: 68 };
const ONE_BY_ONE = 5000;
/** Until what is asked again and again is compiled. */
const WARM_UP = 10_000;
const AT_ONCE = 16;
const ROUNDS = 40_000;
const MILLION = 1_000_000;
const BESIDE = 10;
const ASKER = join(import.meta.dirname, '../ask-checks.ts');
const CLIENT = '10.65.0.2';
/** Whose first checks are measured. */
const OTHERS = Array.from({ length: 20 }, (_, index) => `10.65.1.${String(index)}`);

export async function measureSidecar({ candidates }: RowOptions): Promise<Finding> {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const netns = scope.use(await newNetns());
  const few = clusterWith(POLICIES, 1);
  readAgain(SIDECAR);
  const startMs = performance.now();
  const pod = scope.use(await startPod(netns, few));
  const readyMs = performance.now() - startMs;
  const idle = pod.memory();
  const single = await pod.ask(ONE_BY_ONE, 1, { warmUp: WARM_UP });
  const before = pod.cpuMs();
  const busy = await pod.ask(ROUNDS, AT_ONCE);
  const cpuUs = ((pod.cpuMs() - before) * 1000) / ROUNDS;
  await pod.ask(MILLION / 2, AT_ONCE);
  const half = pod.memory();
  await pod.ask(MILLION / 2, AT_ONCE);
  const whole = pod.memory();
  const ten = await pssOfTen();
  const many = await firstChecks();
  const scale = `${String(MANY.policies)} policies of ${String(MANY.rules)} rules`;
  const figure = (id: string, what: string, value: number, unit: string): Figure => ({
    id: `sidecar.${id}`,
    what: `netplug-sidecar, ${what}`,
    value,
    unit,
  });
  return {
    figures: [
      figure('ready', 'from its start until it has policies', readyMs, 'ms'),
      figure('one.p50', 'a check, one at a time, p50', single.p50Ms * 1000, 'µs'),
      figure('one.p99', 'a check, one at a time, p99', single.p99Ms * 1000, 'µs'),
      figure('many.p99', '16 checks in flight, p99', busy.p99Ms, 'ms'),
      figure('rate', '16 checks in flight, rate', (ROUNDS / busy.ms) * 1000, 'per s'),
      figure('cpu', 'CPU of a check', cpuUs, 'µs'),
      figure('idle.rss', 'idle, RSS', idle.rssMb, 'MB'),
      figure('idle.private', 'idle, private memory', idle.privateMb, 'MB'),
      figure('million.private', 'private memory after a million checks', whole.privateMb, 'MB'),
      figure('million.growth', 'growth in the second half of them', whole.privateMb - half.privateMb, 'MB'),
      figure('ten.pss', 'PSS of each of ten', ten, 'MB'),
      figure('scale.start', `first check since its start, ${scale}`, many.startMs, 'ms'),
      figure('scale.first', `first check of another client, ${scale}`, many.firstMs, 'ms'),
      figure(
        'scale.more',
        'further checks of it, p50, more than with few policies',
        (many.p50Ms - single.p50Ms) * 1000,
        'µs',
      ),
    ],
  };
}

interface FedPod extends AsyncDisposable {
  /** Asks so many times, some at once, about requests of the client. */
  ask(
    count: number,
    atOnce: number,
    options?: { readonly client?: string; readonly warmUp?: number },
  ): Promise<ChecksAsked>;
  cpuMs(): number;
  memory(): { readonly rssMb: number; readonly privateMb: number; readonly pssMb: number };
}

function clusterWith(policies: number, rules: number): PolicyCluster {
  const cluster = new PolicyCluster();
  const addresses = ['10.65.0.1', 'fd00:65::1'];
  cluster.putPod({ namespace: 'shop', name: 'web', addresses, labels: { role: 'a' }, interfaceName: 'npl1' });
  for (let index = 0; index < policies; index += 1) {
    const ingress = Array.from({ length: rules }, (_, at) => ({
      action: 'Allow',
      protocol: 'TCP',
      source: { nets: [`10.66.${String(index % 250)}.${String(at)}/32`] },
      http: { methods: ['GET'], paths: [{ prefix: `/items${String(index)}` }] },
    }));
    cluster.put(globalPolicy(`p${String(index)}`, {}, { selector: "role == 'a'", order: index, ingress }));
  }
  cluster.put(globalPolicy('last', { http: { methods: ['GET'], paths: [{ prefix: '/items' }] } }, { order: 10_000 }));
  return cluster;
}

/** Starts a sidecar in the namespace, which is fed as the agent does it. */
async function startPod(netns: TestNetns, { state }: PolicyCluster): Promise<FedPod> {
  const [key = ''] = state.endpoints.keys();
  let isFed = false;
  const server = createServer((socket) => {
    const feed = new SidecarFeed(state, new FedSets(state), { pod: key, known: FORMAT_1 });
    const session: SidecarSession = new SidecarSession(socket, {
      welcome: () => ({ release: 'v0', trustDomains: ['cluster.local'], identity: 'AddressOrCertificate' }),
      count: () => true,
      onHello: () => void session.send(feed.next()),
      onMessage: ({ type }) => (isFed ||= type === 'applied'),
      onEnd: () => undefined,
    });
  });
  await within(netns, async () => {
    server.listen({ path: AGENT_SOCKET });
    await once(server, 'listening');
  });
  const env = { ...process.env, ...MALLOC };
  const child = spawn('nsenter', [`--net=${netns.path}`, SIDECAR], { stdio: 'ignore', env });
  await until(() => isFed, 'the sidecar has policies');
  return {
    ask: async (count, atOnce, { client = CLIENT, warmUp = 0 } = {}) => {
      const numbers = [count, atOnce].map(String);
      const argv = [`--net=${netns.path}`, process.execPath, ASKER, ...numbers, client, String(warmUp)];
      return JSON.parse((await promisify(execFile)('nsenter', argv)).stdout) as ChecksAsked;
    },
    cpuMs: () => cpuMsOf(child),
    memory: () => memoryOf(child),
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      server.close();
    },
  };
}

async function pssOfTen(): Promise<number> {
  await using scope = new AsyncDisposableStack();
  const cluster = clusterWith(POLICIES, 1);
  const pods: FedPod[] = [];
  for (let index = 0; index < BESIDE; index += 1) {
    const pod = scope.use(await startPod(scope.use(await newNetns()), cluster));
    await pod.ask(100, 1);
    pods.push(pod);
  }
  return pods.reduce((sum, pod) => sum + pod.memory().pssMb, 0) / BESIDE;
}

/** The first check since the start runs code that was never run before; first checks of further clients do not. */
async function firstChecks(): Promise<{ readonly startMs: number; readonly firstMs: number; readonly p50Ms: number }> {
  await using scope = new AsyncDisposableStack();
  const pod = scope.use(await startPod(scope.use(await newNetns()), clusterWith(MANY.policies, MANY.rules)));
  const { p50Ms: startMs } = await pod.ask(1, 1);
  const firsts: number[] = [];
  for (const client of OTHERS) firsts.push((await pod.ask(1, 1, { client })).p50Ms);
  const { p50Ms } = await pod.ask(ONE_BY_ONE, 1, { warmUp: WARM_UP });
  return { startMs, firstMs: quantile(firsts, 0.5), p50Ms };
}

/** User and system time of all its threads. */
function cpuMsOf({ pid = 0 }: ChildProcess): number {
  const tasks = `/proc/${String(pid)}/task`;
  return cpuMsIn(
    readdirSync(tasks)
      .map((thread) => readFileSync(join(tasks, thread, 'schedstat'), 'utf8'))
      .join(''),
  );
}

/** Private is what it has written: pages of its file are shared by all sidecars of a node. */
function memoryOf({ pid = 0 }: ChildProcess): ReturnType<FedPod['memory']> {
  const rollup = readFileSync(`/proc/${String(pid)}/smaps_rollup`, 'utf8');
  const mbOf = (field: string): number => Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(rollup)?.[1]) / 1024;
  return { rssMb: mbOf('Rss'), pssMb: mbOf('Pss'), privateMb: mbOf('Private_Dirty') };
}
