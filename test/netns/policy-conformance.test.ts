// What Kubernetes requires of NetworkPolicy, with real packets over IPv4 and IPv6.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
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
