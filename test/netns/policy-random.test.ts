// Random policies: packets between real pods are allowed as the evaluator says, after each of many changes by difference.
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseAddress } from '../../src/net/address.ts';
import { endAt, evaluateConnection } from '../../src/policy/evaluate.ts';
import { globalPolicy, policyChange } from '../support/policy-arbitraries.ts';
import { PolicyCluster, type TestPod } from '../support/policy-cluster.ts';
import { PolicyHost, type Probe, probeAll } from '../support/policy-host.ts';

const RUNS = 8;
const PODS: readonly TestPod[] = [
  ['x', 'a', 80],
  ['x', 'b', 81],
  ['y', 'a', 81],
  ['y', 'c', 80],
].map(([namespace, role, containerPort], index) => ({
  namespace: String(namespace),
  name: String(role),
  addresses: [`10.65.0.${String(index + 1)}`, `fd00:65::${String(index + 1)}`],
  interfaceName: `npl${String(index)}`,
  labels: { role: String(role) },
  ports: [{ name: 'web', containerPort: Number(containerPort) }],
}));

const scope = new AsyncDisposableStack();
const cluster = new PolicyCluster();
let host: PolicyHost;

beforeAll(async () => {
  host = scope.use(await PolicyHost.start(cluster));
  for (const namespace of ['x', 'y']) cluster.putNamespace(namespace);
  for (const pod of PODS) await host.addPod(pod);
  await host.enforce();
});
afterAll(async () => scope.disposeAsync());

it('decides about each connection between pods as the evaluator does', async () => {
  // Both verdicts for certain, whatever the random policies lead to.
  const closed = globalPolicy('closed', {}, { order: 1, ingress: [] });
  await expectAgreement({ allowed: 72, denied: 0 });
  await host.enforce(cluster.put(closed));
  await expectAgreement({ denied: 36 });
  await host.enforce(cluster.remove(closed));
  await fc.assert(
    fc.asyncProperty(fc.array(policyChange, { minLength: 4, maxLength: 10 }), async (changes) => {
      // Each sequence of changes follows the last one.
      for (const apply of changes) await host.enforce(apply(cluster));
      await expectAgreement();
    }),
    // A failing sequence depends on those before it.
    { numRuns: RUNS, endOnFailure: true },
  );
});

/** Compares the kernel with the evaluator, whose verdicts are counted. */
async function expectAgreement(counts: Partial<Readonly<Record<Probe['expected'], number>>> = {}): Promise<void> {
  const probes = allProbes();
  const answers = await probeAll(probes.map(({ probe }) => probe));
  const actual = probes.map(({ text }, index) => [text, answers[index] === true ? 'allowed' : 'denied']);
  expect(actual).toEqual(probes.map(({ text, probe }) => [text, probe.expected]));
  for (const [verdict, count] of Object.entries(counts))
    expect(probes.filter(({ probe }) => probe.expected === verdict)).toHaveLength(count);
}

function allProbes(): { readonly text: string; readonly probe: Probe }[] {
  return PODS.flatMap((from) =>
    PODS.filter((to) => to !== from).flatMap((to) =>
      to.addresses.flatMap((address, family) =>
        [
          { port: 80, protocol: 'tcp' as const },
          { port: 81, protocol: 'tcp' as const },
          { port: 80, protocol: 'udp' as const },
        ].map(({ port, protocol }) => {
          const source = from.addresses[family] ?? '';
          const expected = judged({ from: source, to: address, port, protocol: protocol === 'tcp' ? 6 : 17 });
          const probe = { from: host.pod(`${from.namespace}/${from.name}`), to: address, port, protocol, expected };
          return { text: `${source} -> ${address} ${protocol} ${String(port)}`, probe };
        }),
      ),
    ),
  );
}

function judged({
  from,
  to,
  port,
  protocol,
}: {
  readonly from: string;
  readonly to: string;
  readonly port: number;
  readonly protocol: number;
}): Probe['expected'] {
  const [source, destination] = [parseAddress(from), parseAddress(to)];
  const { verdict } = evaluateConnection(cluster.state, {
    source: endAt(cluster.state, source),
    destination: endAt(cluster.state, destination),
    packet: { source, destination, protocol, sourcePort: 40_000, destinationPort: port },
    endpointToHost: 'Accept',
  });
  return verdict === 'allow' ? 'allowed' : 'denied';
}
