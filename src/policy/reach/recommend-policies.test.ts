import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { changesOf } from '../../../test/support/policy-clusters.ts';
import { fromKubernetesPolicy } from '../../model/from-kubernetes/network-policy.ts';
import type { KubernetesObject } from '../../model/from-kubernetes/kubernetes-object.ts';
import { decodeResource } from '../../model/decode-resource.ts';
import type { AnyResource } from '../../model/kinds.ts';
import { resourceIdOf } from '../../model/resource-id.ts';
import type { ShownFlow } from '../../model/shown-flows.ts';
import { parseAddress } from '../../net/address.ts';
import { endAt, evaluateConnection } from '../evaluate.ts';
import { PolicyState } from '../policy-state.ts';
import { recommendPolicies, RECOMMENDED_KINDS, type RecommendedKind } from './recommend-policies.ts';

const APPS = ['web', 'web', 'db', 'cache'];
const OUTSIDE = '203.0.113.7';

interface TestPod {
  readonly namespace: string;
  readonly app: string;
  readonly address: string;
}

const DNS: TestPod = { namespace: 'kube-system', app: 'dns', address: '10.0.9.1' };
const PODS: readonly TestPod[] = [
  ...['shop', 'bank'].flatMap((namespace, at) =>
    APPS.map((app, index) => ({ namespace, app, address: `10.0.${String(at)}.${String(index + 1)}` })),
  ),
  DNS,
];
/** The two pods `web` agree on the name of the port, which is why it is named. */
const WEB_PORT = 8080;

const CLUSTER = {
  namespaces: ['shop', 'bank', 'kube-system'].map((name) => ({
    metadata: { name, labels: { 'kubernetes.io/metadata.name': name } },
  })),
  accounts: [],
  policies: [],
  pods: PODS.map(({ namespace, app, address }, index): KubernetesObject => ({
    metadata: {
      name: `${app}-${String(index)}`,
      namespace,
      uid: `uid-${String(index)}`,
      labels: { ...(app === 'dns' ? { 'k8s-app': 'kube-dns' } : { app }), 'pod-template-hash': String(index) },
    },
    spec: {
      nodeName: 'n1',
      containers: [{ ports: app === 'web' ? [{ name: 'http', containerPort: WEB_PORT }] : [] }],
    },
    status: { phase: 'Running', podIPs: [{ ip: address }] },
  })),
};

interface Sketch {
  readonly from: string;
  readonly to: string;
  readonly protocol: number;
  readonly port: number;
}

const address = fc.constantFrom(...PODS.map((pod) => pod.address), OUTSIDE);
const sketch: fc.Arbitrary<Sketch> = fc
  .record({ from: address, to: address, protocol: fc.constantFrom(6, 17), port: fc.constantFrom(80, WEB_PORT, 5432) })
  .filter(({ from, to }) => from !== to);

function viewOf(): PolicyState {
  const view = new PolicyState();
  view.apply(changesOf(CLUSTER));
  return view;
}

function flowOf(view: PolicyState, { from, to, protocol, port }: Sketch): ShownFlow {
  const end = (text: string): ShownFlow['source'] => {
    const { pod } = endAt(view, parseAddress(text));
    return { address: text, ...(pod === undefined ? {} : { pod: pod.shown }) };
  };
  const seen = '2026-01-01T00:00:00Z';
  return {
    verdict: 'allowed',
    source: end(from),
    destination: end(to),
    protocol,
    port,
    firstSeen: seen,
    lastSeen: seen,
    count: 1,
  };
}

/** Pods of a workload count as one. */
function generalized({ from, to, protocol, port }: Sketch): string {
  const nameOf = (text: string): string => {
    const pod = PODS.find((each) => each.address === text);
    return pod === undefined ? text : `${pod.namespace} ${pod.app}`;
  };
  return `${nameOf(from)} ${nameOf(to)} ${String(protocol)} ${String(port)}`;
}

function isAllowed(view: PolicyState, { from, to, protocol, port }: Sketch): boolean {
  const [source, destination] = [parseAddress(from), parseAddress(to)];
  const packet = { source, destination, protocol, sourcePort: 40_000, destinationPort: port };
  const ends = { source: endAt(view, source), destination: endAt(view, destination) };
  return evaluateConnection(view, { ...ends, packet, endpointToHost: 'Accept' }).verdict === 'allow';
}

function applied(
  seen: readonly Sketch[],
  kind: RecommendedKind,
): { readonly view: PolicyState; readonly notes: readonly string[] } {
  const view = viewOf();
  const flows = seen.map((each) => flowOf(view, each));
  const { policies, notes } = recommendPolicies(view, { namespace: 'shop', flows, kind });
  view.apply(
    policies.map((policy) => {
      const value = kind === 'KubernetesNetworkPolicy' ? fromKubernetes(policy) : fromText(policy);
      return { kind: 'resource', which: resourceIdOf(value), value } as const;
    }),
  );
  return { view, notes };
}

function fromKubernetes(policy: object): AnyResource {
  const { value, problems } = fromKubernetesPolicy(policy as KubernetesObject);
  if (value === undefined || problems.length > 0) throw new Error(problems.join());
  return value;
}

/** Decodes a resource as if a user had applied it. */
function fromText(policy: object): AnyResource {
  const decoded = decodeResource(JSON.parse(JSON.stringify(policy)));
  if ('problems' in decoded) throw new Error(JSON.stringify(decoded.problems));
  return decoded.resource;
}

describe('recommended policies', () => {
  it.each(RECOMMENDED_KINDS)(
    'of %s allow what was seen, for all pods of the workloads, and DNS, and nothing else',
    (kind) => {
      fc.assert(
        fc.property(fc.array(sketch, { maxLength: 12 }), fc.array(sketch, { maxLength: 60 }), (seen, tried) => {
          const { view } = applied(seen, kind);
          const allowed = new Set(seen.map(generalized));
          const isOfShop = ({ from, to }: Sketch): boolean =>
            PODS.some((pod) => pod.namespace === 'shop' && [from, to].includes(pod.address));
          const wrong = [...seen, ...tried].filter(
            (each) => isAllowed(view, each) !== (!isOfShop(each) || allowed.has(generalized(each))),
          );
          expect(wrong).toEqual([]);
          const dns = PODS.filter(({ namespace }) => namespace === 'shop').map((pod) => pod.address);
          expect(dns.every((from) => isAllowed(view, { from, to: DNS.address, protocol: 17, port: 53 }))).toBe(true);
        }),
        { numRuns: 40 },
      );
    },
  );

  it('are readable: labels of the workload, names of ports, one rule for peers with equal ports', () => {
    const view = viewOf();
    const sketches = [
      { from: '10.0.0.3', to: '10.0.0.1', protocol: 6, port: WEB_PORT },
      { from: '10.0.1.3', to: '10.0.0.2', protocol: 6, port: WEB_PORT },
      { from: '10.0.0.1', to: OUTSIDE, protocol: 6, port: 443 },
    ];
    const flows = sketches.map((each) => flowOf(view, each));
    const { policies, notes } = recommendPolicies(view, { namespace: 'shop', flows });
    expect(policies.map(({ metadata }) => metadata.name)).toEqual(['cache', 'db', 'web']);
    expect(policies).toEqual(recommendPolicies(view, { namespace: 'shop', flows: flows.toReversed() }).policies);
    expect(policies[2]?.spec).toEqual({
      podSelector: { matchLabels: { app: 'web' } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        {
          from: [
            {
              namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'bank' } },
              podSelector: { matchLabels: { app: 'db' } },
            },
            { podSelector: { matchLabels: { app: 'db' } } },
          ],
          ports: [{ protocol: 'TCP', port: 'http' }],
        },
      ],
      egress: [
        {
          to: [
            {
              namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } },
              podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
            },
          ],
          ports: [
            { protocol: 'UDP', port: 53 },
            { protocol: 'TCP', port: 53 },
          ],
        },
        { to: [{ ipBlock: { cidr: '203.0.113.7/32' } }], ports: [{ protocol: 'TCP', port: 443 }] },
      ],
    });
    expect(notes).toEqual(['app=web: what one of 2 pods was seen to do is allowed to all']);
  });

  it('of netplug also allow what Kubernetes policies cannot name', () => {
    const view = viewOf();
    const known = flowOf(view, { from: '10.0.0.1', to: '10.0.0.3', protocol: 6, port: 80 });
    const { port: _, ...ping } = { ...known, protocol: 1, icmp: { type: 8, code: 0 } };
    const { policies, notes } = recommendPolicies(view, {
      namespace: 'shop',
      flows: [ping, known],
      kind: 'NetworkPolicy',
    });
    expect(notes).toEqual(['app=web: what one of 2 pods was seen to do is allowed to all']);
    const [, db] = policies;
    expect(db?.spec).toMatchObject({
      selector: "app == 'db'",
      ingress: [
        { action: 'Allow', protocol: 'ICMP', icmp: { type: 8 }, source: { selector: "app == 'web'" } },
        { action: 'Allow', protocol: 'TCP', source: { selector: "app == 'web'" }, destination: { ports: [80] } },
      ],
    });
    expect(fromText(db ?? {})).toMatchObject({ kind: 'NetworkPolicy' });
  });

  it('say where they allow requests that present rules with http do not', () => {
    const view = new PolicyState({ guards: 'assumed' });
    const db = fromText({
      apiVersion: 'netplug.io/v3',
      kind: 'NetworkPolicy',
      metadata: { name: 'db', namespace: 'shop' },
      spec: {
        selector: "app == 'db'",
        types: ['Ingress'],
        ingress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: [80] }, http: {} }],
      },
    });
    view.apply([...changesOf(CLUSTER), { kind: 'resource', which: resourceIdOf(db), value: db }]);
    const notesOf = (to: string): readonly string[] =>
      recommendPolicies(view, {
        namespace: 'shop',
        flows: [flowOf(view, { from: '10.0.0.1', to, protocol: 6, port: 80 })],
      }).notes;
    expect(notesOf('10.0.0.3')).toContain(
      'of requests from app=web to app=db, present rules with http allow some alone: the recommended policies allow all of them',
    );
    expect(notesOf('10.0.0.2').join()).not.toContain('requests');
  });

  it('say what they cannot cover: pods that are gone, and protocols without ports', () => {
    const view = viewOf();
    const known = flowOf(view, { from: '10.0.0.1', to: '10.0.0.3', protocol: 6, port: 80 });
    const { port: _, ...ping } = { ...known, protocol: 1 };
    const gone = { ...known, source: { address: '10.0.0.1', pod: 'shop/earlier' } };
    const { notes } = recommendPolicies(view, { namespace: 'shop', flows: [ping, gone] });
    expect(notes.slice(0, 2)).toEqual([
      'ICMP from app=web to app=db is not allowed: Kubernetes policies cannot name it',
      '1 flow of pods that are gone is not considered',
    ]);
  });
});
