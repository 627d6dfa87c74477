// netplug-sidecar: how long a check takes, what it costs, and what the program takes, fed by the agent's own code.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { CheckRequest } from '../../../proto/gen/authz.ts';
import { SidecarSession } from '../../../src/apps/agent/network/sidecars/sidecar-session.ts';
import { Http2Session } from '../../../src/base/http2/http2-session.ts';
import { FedSets } from '../../../src/policy/feed/fed-sets.ts';
import { AGENT_SOCKET, CHECK_SOCKET } from '../../../src/policy/feed/messages.ts';
import { SidecarFeed } from '../../../src/policy/feed/sidecar-feed.ts';
import { FORMAT_1 } from '../../../src/policy/feed/wire-rule.ts';
import { SIDECAR } from '../../../test/support/built.ts';
import { newNetns, type TestNetns } from '../../../test/support/netns.ts';
import { globalPolicy } from '../../../test/support/policy-arbitraries.ts';
import { PolicyCluster } from '../../../test/support/policy-cluster.ts';
import { within } from '../../../test/support/tcp-echo.ts';
import { until } from '../../../test/support/until.ts';
import type { Figure, Finding, RowOptions } from '../report.ts';
import { quantile } from '../statistics.ts';

const POLICIES = 50;
/** The scale at which the peer was measured. */
const MANY = { policies: 294, rules: 68 };
const ONE_BY_ONE = 5000;
const AT_ONCE = 16;
const ROUNDS = 40_000;
const MILLION = 1_000_000;
const BESIDE = 10;
const never = new AbortController().signal;

export async function measureSidecar({ candidates }: RowOptions): Promise<Finding> {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const netns = scope.use(await newNetns());
  const few = clusterWith(POLICIES, 1);
  const startMs = performance.now();
  const pod = scope.use(await startPod(netns, few));
  const readyMs = performance.now() - startMs;
  const idle = pod.memory();
  await ask(pod, 2000, 1);
  const single = await ask(pod, ONE_BY_ONE, 1);
  const before = pod.cpuMs();
  const busy = await ask(pod, ROUNDS, AT_ONCE);
  const cpuUs = ((pod.cpuMs() - before) * 1000) / ROUNDS;
  await ask(pod, MILLION / 2, AT_ONCE);
  const half = pod.memory();
  await ask(pod, MILLION / 2, AT_ONCE);
  const whole = pod.memory();
  const ten = await pssOfTen();
  const many = await firstCheck();
  const figure = (id: string, what: string, value: number, unit: string): Figure => ({
    id: `sidecar.${id}`,
    what: `netplug-sidecar, ${what}`,
    value,
    unit,
  });
  return {
    figures: [
      figure('ready', 'from its start until it has policies', readyMs, 'ms'),
      figure('one.p50', 'a check, one at a time, p50', quantile(single.times, 0.5) * 1000, 'µs'),
      figure('one.p99', 'a check, one at a time, p99', quantile(single.times, 0.99) * 1000, 'µs'),
      figure('many.p99', '16 checks in flight, p99', quantile(busy.times, 0.99), 'ms'),
      figure('rate', '16 checks in flight, rate', (ROUNDS / busy.ms) * 1000, 'per s'),
      figure('cpu', 'CPU of a check', cpuUs, 'µs'),
      figure('idle.rss', 'idle, RSS', idle.rssMb, 'MB'),
      figure('idle.private', 'idle, private memory', idle.privateMb, 'MB'),
      figure('million.private', 'private memory after a million checks', whole.privateMb, 'MB'),
      figure('million.growth', 'growth in the second half of them', whole.privateMb - half.privateMb, 'MB'),
      figure('ten.pss', 'PSS of each of ten', ten, 'MB'),
      figure(
        'scale.first',
        `first check of a client, ${String(MANY.policies)} policies of ${String(MANY.rules)} rules`,
        many.firstMs,
        'ms',
      ),
      figure(
        'scale.more',
        'further checks of it, p50, more than with few policies',
        (many.p50Ms - quantile(single.times, 0.5)) * 1000,
        'µs',
      ),
    ],
  };
}

interface FedPod extends AsyncDisposable {
  readonly session: Http2Session;
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
  const child = spawn('nsenter', [`--net=${netns.path}`, SIDECAR], { stdio: 'ignore' });
  await until(() => isFed, 'the sidecar has policies');
  const socket = await within(netns, async () => {
    const opening = connect({ path: CHECK_SOCKET });
    await once(opening, 'connect');
    return opening;
  });
  const session = new Http2Session(socket, new URL('http://netplug-check'));
  await session.introduced();
  return {
    session,
    cpuMs: () => cpuMsOf(child),
    memory: () => memoryOf(child),
    [Symbol.asyncDispose]: async () => {
      session.destroy();
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      server.close();
    },
  };
}

/** Asks so many times, some at once; times in ms. */
async function ask(
  { session }: FedPod,
  count: number,
  atOnce: number,
): Promise<{ readonly times: readonly number[]; readonly ms: number }> {
  const body = checkBody();
  const times: number[] = [];
  let left = count;
  const work = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const startMs = performance.now();
      const response = await session.request({
        method: 'POST',
        path: '/envoy.service.auth.v3.Authorization/Check',
        headers: { 'content-type': 'application/grpc', te: 'trailers' },
        body,
        signal: never,
      });
      for await (const _ of response);
      if (times.length < 100_000) times.push(performance.now() - startMs);
    }
  };
  const startMs = performance.now();
  await Promise.all(Array.from({ length: atOnce }, work));
  return { times, ms: performance.now() - startMs };
}

function checkBody(): Buffer {
  const peer = (address: string, portValue: number) => ({
    address: { socketAddress: { address, portValue } },
    principal: '',
  });
  const message = CheckRequest.encode({
    attributes: {
      source: peer('10.65.0.2', 40_000),
      destination: peer('10.65.0.1', 8080),
      request: { http: { method: 'GET', path: '/items/1?page=2' } },
    },
  }).finish();
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

async function pssOfTen(): Promise<number> {
  await using scope = new AsyncDisposableStack();
  const cluster = clusterWith(POLICIES, 1);
  const pods: FedPod[] = [];
  for (let index = 0; index < BESIDE; index += 1) {
    const pod = scope.use(await startPod(scope.use(await newNetns()), cluster));
    await ask(pod, 100, 1);
    pods.push(pod);
  }
  return pods.reduce((sum, pod) => sum + pod.memory().pssMb, 0) / BESIDE;
}

async function firstCheck(): Promise<{ readonly firstMs: number; readonly p50Ms: number }> {
  await using scope = new AsyncDisposableStack();
  const pod = scope.use(await startPod(scope.use(await newNetns()), clusterWith(MANY.policies, MANY.rules)));
  const first = await ask(pod, 1, 1);
  const more = await ask(pod, ONE_BY_ONE, 1);
  return { firstMs: quantile(first.times, 0.5), p50Ms: quantile(more.times, 0.5) };
}

function cpuMsOf({ pid = 0 }: ChildProcess): number {
  return Number(readFileSync(`/proc/${String(pid)}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
}

/** Private is what it has written: pages of its file are shared by all sidecars of a node. */
function memoryOf({ pid = 0 }: ChildProcess): ReturnType<FedPod['memory']> {
  const rollup = readFileSync(`/proc/${String(pid)}/smaps_rollup`, 'utf8');
  const mbOf = (field: string): number => Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(rollup)?.[1]) / 1024;
  return { rssMb: mbOf('Rss'), pssMb: mbOf('Pss'), privateMb: mbOf('Private_Dirty') };
}
