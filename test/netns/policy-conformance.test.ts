// What Kubernetes requires of NetworkPolicy, with real packets over IPv4 and IPv6.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { linuxPacketReports } from '../../src/dataplane/linux/linux-packet-reports.ts';
import { formatAddress, parseAddress } from '../../src/net/address.ts';
import { endAt, evaluateConnection } from '../../src/policy/evaluate.ts';
import { PolicyCluster, type TestPolicy, type TestPod } from '../support/policy-cluster.ts';
import { REPORT_GROUP } from '../../src/policy/ruleset/policy-ruleset.ts';
import { enterNetns, type TestNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';
import { HOST_ADDRESSES, PolicyHost, type Probe, probeAll } from '../support/policy-host.ts';
import { CASES, type ConformanceCase } from '../support/policy-cases.ts';

const NAMESPACES = ['x', 'y', 'z'];
const NAMES = ['a', 'b', 'c'];

const scope = new AsyncDisposableStack();
const cluster = new PolicyCluster();
let host: PolicyHost;
/** A machine that is no node of the cluster. */
const OUTSIDE = ['198.51.100.2', '2001:db8:1::2'];
let outside: TestNetns;

const PODS: readonly TestPod[] = NAMESPACES.flatMap((namespace, row) =>
  NAMES.map((name, column) => ({
    namespace,
    name,
    addresses: [`10.65.${String(row)}.${String(column + 1)}`, `fd00:65::${String(row)}:${String(column + 1)}`],
    interfaceName: `npl${namespace}${name}`,
    // The pods of namespace y have other numbers behind the same names.
    ports: [
      { name: 'web', containerPort: namespace === 'y' ? 81 : 80 },
      { name: 'dns', containerPort: 80, protocol: 'UDP' },
    ],
  })),
);

beforeAll(async () => {
  host = scope.use(await PolicyHost.start(cluster));
  for (const namespace of NAMESPACES) cluster.putNamespace(namespace, { ns: namespace });
  for (const pod of PODS) await host.addPod(pod);
  outside = await host.addNeighbour('out0', {
    own: ['198.51.100.1/24', '2001:db8:1::1/64'],
    its: OUTSIDE.map((address, at) => `${address}/${at === 0 ? '24' : '64'}`),
  });
  await host.enforce();
});

afterAll(async () => scope.disposeAsync());

describe('pods', () => {
  let policies: readonly TestPolicy[] = [];

  afterEach(async () => {
    for (const policy of policies) await host.enforce(cluster.removePolicy(policy));
    policies = [];
  });

  it.each(CASES)('$title', async ({ policies: wanted, ...test }) => {
    policies = wanted;
    for (const policy of policies) await host.enforce(cluster.putPolicy(policy));
    expect(await wrongAnswers(test)).toEqual([]);
  });
});

describe('changes', () => {
  const onlyB = policyOf('only-b', [{ podSelector: { matchLabels: { may: 'yes' } } }]);
  const onlyY = policyOf('only-y', [{ namespaceSelector: { matchLabels: { may: 'yes' } } }]);
  const [A, B] = PODS as [TestPod, TestPod];
  afterEach(async () => {
    for (const policy of [onlyB, onlyY]) cluster.removePolicy(policy);
    for (const pod of PODS) cluster.putPod(pod);
    await host.enforce(cluster.putNamespace('y', { ns: 'y' }));
    await host.enforce();
  });

  it('of labels of a pod let it in and out again, without a restart', async () => {
    await host.enforce(cluster.putPolicy(onlyB));
    expect(await wrongAnswers({ allowed: [], denied: ['x/b -> x/a', 'x/c -> x/a'] })).toEqual([]);
    await host.enforce(cluster.putPod({ ...B, labels: { may: 'yes' } }));
    expect(await wrongAnswers({ allowed: ['x/b -> x/a'], denied: ['x/c -> x/a'] })).toEqual([]);
    await host.enforce(cluster.putPod(B));
    expect(await wrongAnswers({ allowed: [], denied: ['x/b -> x/a'] })).toEqual([]);
  });

  it('of labels of a namespace let its pods in and out again', async () => {
    await host.enforce(cluster.putPolicy(onlyY));
    expect(await wrongAnswers({ allowed: [], denied: ['y/a -> x/a'] })).toEqual([]);
    await host.enforce(cluster.putNamespace('y', { ns: 'y', may: 'yes' }));
    expect(await wrongAnswers({ allowed: ['y/a -> x/a', 'y/b -> x/a'], denied: ['x/b -> x/a'] })).toEqual([]);
    await host.enforce(cluster.putNamespace('y', { ns: 'y' }));
    expect(await wrongAnswers({ allowed: [], denied: ['y/a -> x/a'] })).toEqual([]);
  });

  it('of labels of the selected pod put it under a policy and free it', async () => {
    const isolating = { namespace: 'x', name: 'only-b', spec: { podSelector: { matchLabels: { shut: 'yes' } } } };
    await host.enforce(cluster.putPolicy(isolating));
    expect(await wrongAnswers({ allowed: ['x/c -> x/b'], denied: [] })).toEqual([]);
    await host.enforce(cluster.putPod({ ...B, labels: { shut: 'yes' } }));
    expect(await wrongAnswers({ allowed: ['x/b -> x/c'], denied: ['x/c -> x/b'] })).toEqual([]);
    await host.enforce(cluster.putPod(B));
    expect(await wrongAnswers({ allowed: ['x/c -> x/b'], denied: [] })).toEqual([]);
  });

  it('of a policy are followed, and its deletion opens what it had closed', async () => {
    await host.enforce(cluster.putPolicy(policyOf('only-y', [{ podSelector: { matchLabels: { pod: 'b' } } }])));
    expect(await wrongAnswers({ allowed: ['x/b -> x/a'], denied: ['x/c -> x/a'] })).toEqual([]);
    await host.enforce(cluster.putPolicy(policyOf('only-y', [{ podSelector: { matchLabels: { pod: 'c' } } }])));
    expect(await wrongAnswers({ allowed: ['x/c -> x/a'], denied: ['x/b -> x/a'] })).toEqual([]);
    await host.enforce(cluster.removePolicy(onlyY));
    expect(await wrongAnswers({ allowed: ['x/b -> x/a', 'x/c -> x/a'], denied: [] })).toEqual([]);
  });

  it('keep a pod that terminates under its policies and known to others, until its network is removed', async () => {
    await host.enforce(cluster.putPolicy(policyOf('only-b', [{ podSelector: { matchLabels: { pod: 'b' } } }])));
    await host.enforce(cluster.putPod({ ...B, isTerminating: true }));
    await host.enforce(cluster.putPod({ ...A, isTerminating: true }));
    expect(await wrongAnswers({ allowed: ['x/b -> x/a'], denied: ['x/c -> x/a'] })).toEqual([]);
  });

  it.each(['Succeeded', 'Failed'] as const)('take a pod that has %s out of all rules', async (phase) => {
    await host.enforce(cluster.putPolicy(policyOf('only-b', [{ podSelector: { matchLabels: { pod: 'b' } } }])));
    expect(await wrongAnswers({ allowed: ['x/b -> x/a'], denied: [] })).toEqual([]);
    await host.enforce(cluster.putPod({ ...B, phase }));
    // Its address may be that of another pod by now.
    expect(await wrongAnswers({ allowed: [], denied: ['x/b -> x/a'] })).toEqual([]);
  });

  it('give the address of a finished pod with nothing of it to the next pod', async () => {
    await host.enforce(cluster.putPolicy(policyOf('only-b', [{ podSelector: { matchLabels: { pod: 'b' } } }])));
    // The object of the finished pod keeps its addresses.
    await host.enforce(cluster.putPod({ ...B, phase: 'Succeeded' }));
    await host.enforce(cluster.putPod({ ...B, name: 'next', labels: { pod: 'next' } }));
    expect(await wrongAnswers({ allowed: ['x/b -> y/a'], denied: ['x/b -> x/a'] })).toEqual([]);
    await host.enforce(cluster.removePod({ namespace: 'x', name: 'next' }));
  });

  it('keep base chains in place, which other programs may wait for', async () => {
    const handles = async (): Promise<readonly string[]> => {
      const listed = await host.netns.exec('nft', '-a', 'list', 'table', 'inet', 'netplug-policy');
      return [...listed.matchAll(/chain (\S+) { # handle (\d+)\n\s+type/g)].map(
        ([, name, handle]) => `${name ?? ''} ${handle ?? ''}`,
      );
    };
    const before = await handles();
    expect(before.length).toBeGreaterThan(3);
    for (const policy of [onlyB, onlyY]) await host.enforce(cluster.putPolicy(policy));
    for (const pod of PODS.filter(({ namespace }) => namespace !== 'x')) cluster.removePod(pod);
    await host.enforce();
    await host.enforce(cluster.removePolicy(onlyB));
    expect(await handles()).toEqual(before);
  });
});

function policyOf(name: string, from: readonly object[]): TestPolicy {
  return {
    namespace: 'x',
    name,
    spec: { podSelector: { matchLabels: { pod: 'a' } }, policyTypes: ['Ingress'], ingress: [{ from }] },
  };
}

describe('20 policies at once', () => {
  const chosen = CASES.flatMap(({ policies }) => policies)
    .filter(({ spec }) => !JSON.stringify(spec).includes('[{}]'))
    .slice(0, 20)
    .map((policy, index) => ({ ...policy, namespace: NAMESPACES[index % 3] ?? 'x' }));

  afterAll(async () => {
    for (const policy of chosen) await host.enforce(cluster.removePolicy(policy));
  });

  it('let each of 9 pods reach the others exactly as the evaluator says', async () => {
    expect(chosen).toHaveLength(20);
    for (const policy of chosen) await host.enforce(cluster.putPolicy(policy));
    const wanted = PODS.flatMap((from) =>
      PODS.filter((to) => to !== from).flatMap((to) =>
        ['80', '81', '80/udp'].map((port) => `${from.namespace}/${from.name} -> ${to.namespace}/${to.name}:${port}`),
      ),
    ).flatMap((text) => probesOf(text, 'allowed'));
    const expected = wanted.map(({ text, probe }) => ({ text, probe: { ...probe, expected: judged(text, probe) } }));
    const answers = await probeAll(expected.map(({ probe }) => probe));
    const shown = expected.map(({ text, probe }) => `${text} (${probe.to}) ${probe.expected}`);
    const actual = expected.map(
      ({ text, probe }, index) => `${text} (${probe.to}) ${answers[index] === true ? 'allowed' : 'denied'}`,
    );
    expect(actual).toEqual(shown);
    const allowed = expected.filter(({ probe }) => probe.expected === 'allowed').length;
    expect(Math.min(allowed, expected.length - allowed)).toBeGreaterThan(20);
  });
});

describe('a denied packet', () => {
  it('is counted by the rule that a reader can name, also after another policy has changed', async () => {
    const policy = CASES.find(({ title }) => title.startsWith('L1 '))?.policies[0];
    if (policy === undefined) throw new Error('there is no such case');
    await host.enforce(cluster.putPolicy(policy));
    expect(await wrongAnswers({ allowed: [], denied: ['y/a -> x/a'] })).toEqual([]);
    const other = { namespace: 'z', name: 'other', spec: { podSelector: {}, policyTypes: ['Ingress'] } };
    await host.enforce(cluster.putPolicy(other));
    const counts = await host.filter.counts('netplug-policy', new AbortController().signal);
    const denied = [...(host.ruleset?.origins ?? [])].filter(([, { kind }]) => kind === 'tier');
    expect(denied.map(([, origin]) => origin)).toContainEqual({ kind: 'tier', name: 'default', direction: 'ingress' });
    expect(denied.some(([id]) => counts.some(({ rule, packets }) => rule === id && packets >= 2n))).toBe(true);
    await host.enforce(cluster.removePolicy(policy));
    await host.enforce(cluster.removePolicy(other));
  });

  it('is reported although another pod floods the same default, in both directions', async () => {
    const isolating = { namespace: 'x', name: 'closed', spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } };
    await host.enforce(cluster.putPolicy(isolating));
    const reported: string[] = [];
    const inside = enterNetns(host.netns);
    const watch = linuxPacketReports().watch(REPORT_GROUP, (report) => {
      if (report.kind !== 'packet') return;
      const { source, destination } = report.headers;
      reported.push(`${formatAddress(source)} > ${formatAddress(destination)}`);
    });
    inside.leave();
    try {
      const [[a4 = ''] = [], [b4 = ''] = []] = PODS.slice(0, 2).map(({ addresses }) => addresses);
      const [y4 = ''] = PODS.find(({ namespace }) => namespace === 'y')?.addresses ?? [];
      // Ingress: y/a floods x/a, and asks x/b once; egress: x/a floods y/a, and x/b asks it once.
      const rounds = [
        { flood: ['y/a', y4, a4], single: ['y/a', y4, b4] },
        { flood: ['x/a', a4, y4], single: ['x/b', b4, y4] },
      ] as const;
      for (const { flood, single } of rounds) {
        await sendDatagrams(host.pod(flood[0]), flood[2], 2000);
        await sendDatagrams(host.pod(single[0]), single[2], 1);
        await until(() => reported.includes(`${single[1]} > ${single[2]}`), 'the single packet is reported');
        const floods = reported.filter((each) => each === `${flood[1]} > ${flood[2]}`).length;
        expect(floods).toBeGreaterThan(0);
        expect(floods).toBeLessThan(200);
      }
    } finally {
      watch[Symbol.dispose]();
    }
    await host.enforce(cluster.removePolicy(isolating));
  });
});

async function sendDatagrams(from: TestNetns, to: string, count: number): Promise<void> {
  const inside = enterNetns(from);
  try {
    const socket = createSocket('udp4');
    socket.bind(0);
    await once(socket, 'listening');
    for (let sent = 0; sent < count; sent += 1) await new Promise((resolve) => socket.send('x', 80, to, resolve));
    socket.close();
  } finally {
    inside.leave();
  }
}

function judged(text: string, { to, port, protocol }: Probe): Probe['expected'] {
  const [from = ''] = text.split(' ');
  const destination = parseAddress(to);
  const source = PODS.find(({ namespace, name }) => `${namespace}/${name}` === from)
    ?.addresses.map(parseAddress)
    .find(({ family }) => family === destination.family);
  if (source === undefined) throw new Error(`cannot read "${text}"`);
  const { verdict } = evaluateConnection(cluster.state, {
    source: endAt(cluster.state, source),
    destination: endAt(cluster.state, destination),
    packet: { source, destination, protocol: protocol === 'udp' ? 17 : 6, sourcePort: 40_000, destinationPort: port },
    endpointToHost: 'Accept',
  });
  return verdict === 'allow' ? 'allowed' : 'denied';
}

/** Returns what is reachable and must not be, or the reverse. */
async function wrongAnswers({ allowed, denied }: Pick<ConformanceCase, 'allowed' | 'denied'>): Promise<string[]> {
  const wanted = [
    ...allowed.flatMap((text) => probesOf(text, 'allowed')),
    ...denied.flatMap((text) => probesOf(text, 'denied')),
  ];
  const answers = await probeAll(wanted.map(({ probe }) => probe));
  return wanted
    .filter(({ probe }, index) => answers[index] !== (probe.expected === 'allowed'))
    .map(({ text, probe }) => `${text} (${probe.to}) is not ${probe.expected}`);
}

const TEXT = /^(\S+) -> (\w\/\w|host|out)(?::(\d+))?(?:\/(tcp|udp|icmp))?(?: over IPv([46]))?$/;

/** Reads `x/a -> y/b:80/udp`; protocol tcp and port 80 unless given. One probe for each family. */
function probesOf(text: string, expected: Probe['expected']): { readonly text: string; readonly probe: Probe }[] {
  const [, from = '', to = '', port = '80', protocol = 'tcp', family] = TEXT.exec(text) ?? [];
  const target = PODS.find(({ namespace, name }) => `${namespace}/${name}` === to);
  const machines: Readonly<Record<string, readonly string[]>> = { host: HOST_ADDRESSES, out: OUTSIDE };
  const all = machines[to] ?? target?.addresses ?? [];
  const addresses = all.filter((address) => family === undefined || address.includes(':') === (family === '6'));
  if (addresses.length === 0) throw new Error(`cannot read "${text}"`);
  const source = from === 'host' ? host.netns : from === 'out' ? outside : host.pod(from);
  return addresses.map((address) => ({
    text,
    probe: { from: source, to: address, port: Number(port), protocol: protocol as 'tcp' | 'udp' | 'icmp', expected },
  }));
}
