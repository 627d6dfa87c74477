// What Kubernetes requires of NetworkPolicy, with real packets over IPv4 and IPv6.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { parseAddress } from '../../src/net/address.ts';
import { endAt, evaluateConnection } from '../../src/policy/evaluate.ts';
import { PolicyCluster, type TestPolicy, type TestPod } from '../support/policy-cluster.ts';
import { PolicyHost, type Probe, probeAll } from '../support/policy-host.ts';
import { CASES, type ConformanceCase } from '../support/policy-cases.ts';

const NAMESPACES = ['x', 'y', 'z'];
const NAMES = ['a', 'b', 'c'];

const scope = new AsyncDisposableStack();
const cluster = new PolicyCluster();
let host: PolicyHost;

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
});

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

/** Reads `x/a -> y/b:80/udp`; protocol tcp and port 80 unless given. One probe for each family. */
function probesOf(text: string, expected: Probe['expected']): { readonly text: string; readonly probe: Probe }[] {
  const [, from = '', to = '', port = '80', protocol = 'tcp'] =
    /^(\S+) -> (\w\/\w|host)(?::(\d+))?(?:\/(tcp|udp))?$/.exec(text) ?? [];
  const target = PODS.find(({ namespace, name }) => `${namespace}/${name}` === to);
  const addresses = to === 'host' ? ['192.0.2.1', '2001:db8::1'] : (target?.addresses ?? []);
  if (addresses.length === 0) throw new Error(`cannot read "${text}"`);
  const source = from === 'host' ? host.netns : host.pod(from);
  return addresses.map((address) => ({
    text,
    probe: { from: source, to: address, port: Number(port), protocol: protocol === 'udp' ? 'udp' : 'tcp', expected },
  }));
}
