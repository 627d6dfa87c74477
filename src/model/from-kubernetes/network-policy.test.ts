import { describe, expect, it } from 'vitest';
import { fromKubernetesPolicy } from './network-policy.ts';

function convert(spec: unknown): ReturnType<typeof fromKubernetesPolicy> {
  return fromKubernetesPolicy({
    metadata: { name: 'web', namespace: 'shop', uid: 'u1', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec,
  });
}

describe('the policy that stands for a Kubernetes NetworkPolicy', () => {
  it('has the name, order and selector that tools expect', () => {
    const { value, problems } = convert({
      podSelector: {
        matchLabels: { 'tier/z': '1', app: 'web' },
        matchExpressions: [
          { key: 'a', operator: 'In', values: ['2', '1'] },
          { key: 'b', operator: 'NotIn', values: ['x'] },
          { key: 'c', operator: 'Exists' },
          { key: 'd', operator: 'DoesNotExist' },
        ],
      },
      ingress: [
        {
          from: [
            { podSelector: { matchLabels: { app: 'gateway' } } },
            { namespaceSelector: {} },
            { ipBlock: { cidr: '192.0.2.7/24', except: ['192.0.2.9/32'] } },
          ],
          ports: [
            { port: 83 },
            { port: 81 },
            { port: 80 },
            { port: 8000, endPort: 8080 },
            { port: 'http' },
            { protocol: 'UDP' },
            { protocol: 'UDP', port: 53 },
          ],
        },
      ],
      policyTypes: ['Ingress'],
    });
    expect(problems).toEqual([]);
    const peers = [
      { selector: "netplug/orchestrator == 'orch' && app == 'gateway'" },
      { selector: "netplug/orchestrator == 'orch'", namespaceSelector: 'all()' },
      { nets: ['192.0.2.0/24'], notNets: ['192.0.2.9/32'] },
    ];
    const metadata = { annotations: { 'netplug/rule': '0' } };
    expect(value).toEqual({
      apiVersion: 'netplug.io/v3',
      kind: 'NetworkPolicy',
      metadata: { name: 'knp.default.web', namespace: 'shop', creationTimestamp: '2026-01-01T00:00:00Z' },
      spec: {
        order: 1000,
        selector:
          "netplug/orchestrator == 'orch' && app == 'web' && tier/z == '1' && a in { '2', '1' } && b not in { 'x' } && has(c) && ! has(d)",
        types: ['Ingress'],
        ingress: [
          ...peers.map((source) => {
            const destination = { ports: ['80:81', 83, '8000:8080', 'http'] };
            return { action: 'Allow', protocol: 'TCP', source, destination, metadata };
          }),
          ...peers.map((source) => ({ action: 'Allow', protocol: 'UDP', source, metadata })),
        ],
        egress: [],
      },
    });
  });

  it.each([
    ['an unknown operator', { from: [{ podSelector: { matchExpressions: [{ key: 'a', operator: 'Near' }] } }] }],
    [
      'In without values',
      { from: [{ podSelector: { matchExpressions: [{ key: 'a', operator: 'In', values: [] }] } }] },
    ],
    [
      'a label that breaks out of its quotes',
      { from: [{ podSelector: { matchLabels: { a: "x' || all() || a == 'x" } } }] },
    ],
    ['a network that is none', { from: [{ ipBlock: { cidr: '10.0.0.0' } }] }],
    ['an ipBlock beside a selector', { from: [{ ipBlock: { cidr: '10.0.0.0/8' }, podSelector: {} }] }],
    ['an unknown protocol', { ports: [{ protocol: 'GRE' }] }],
    ['a number as text', { ports: [{ port: '80' }] }],
    ['port 0', { ports: [{ port: 0 }] }],
    ['a rule that is a text', 'everything'],
  ])('leaves out a rule with %s, and keeps the others', (_, rule) => {
    const { value, problems } = convert({ podSelector: {}, ingress: [rule, { ports: [{ port: 80 }] }] });
    expect(value?.spec.ingress).toEqual([
      {
        action: 'Allow',
        protocol: 'TCP',
        destination: { ports: [80] },
        metadata: { annotations: { 'netplug/rule': '1' } },
      },
    ]);
    expect(problems).toEqual([expect.stringContaining('NetworkPolicy shop/web: ingress[0] allows nothing')]);
  });

  it('makes one rule of the networks of a family, and one of each that has exceptions', () => {
    const block = (cidr: string, ...except: readonly string[]): object => ({ ipBlock: { cidr, except } });
    const from = [block('10.0.0.0/24'), block('10.1.0.0/16', '10.1.1.0/24'), block('fd00::/64'), block('10.0.0.9/24')];
    const { value } = convert({ podSelector: {}, ingress: [{ from, ports: [{ port: 80 }, { protocol: 'UDP' }] }] });
    expect(value?.spec.ingress?.map(({ protocol, source }) => [protocol, source?.nets, source?.notNets])).toEqual([
      ['TCP', ['10.0.0.0/24'], undefined],
      ['TCP', ['fd00::/64'], undefined],
      ['TCP', ['10.1.0.0/16'], ['10.1.1.0/24']],
      ['UDP', ['10.0.0.0/24'], undefined],
      ['UDP', ['fd00::/64'], undefined],
      ['UDP', ['10.1.0.0/16'], ['10.1.1.0/24']],
    ]);
  });

  it('takes ten thousand networks in a rule, and four thousand selectors', () => {
    const nets = (count: number): object[] =>
      Array.from({ length: count }, (_, index) => ({
        ipBlock: { cidr: `10.${String(index >> 8)}.${String(index & 255)}.0/24` },
      }));
    const selectors = (count: number): object[] =>
      Array.from({ length: count }, (_, index) => ({ podSelector: { matchLabels: { a: String(index) } } }));
    const rulesFor = (from: object[]): unknown => convert({ podSelector: {}, ingress: [{ from }] }).value?.spec.ingress;
    expect(rulesFor(nets(10_000))).toHaveLength(1);
    expect(rulesFor(nets(66_000))).toEqual([]);
    expect(rulesFor(selectors(4096))).toHaveLength(4096);
    expect(rulesFor(selectors(4097))).toEqual([]);
  });

  it('does without a rule whose peers times ports are too many, however large the product is', () => {
    const from = Array.from({ length: 3000 }, (_, index) => ({
      podSelector: { matchLabels: { app: `a${String(index)}` } },
    }));
    const ports = Array.from({ length: 3000 }, (_, index) => ({ port: 2 * index + 1 }));
    const large = { from, ports };
    const { value, problems } = convert({ podSelector: {}, ingress: [large, { ports: [{ port: 80 }] }, large] });
    expect(value?.spec.ingress).toMatchObject([{ destination: { ports: [80] } }]);
    expect(problems).toEqual(
      [0, 2].map((index) => expect.stringContaining(`ingress[${String(index)}] allows nothing`) as string),
    );
    const whole = convert({ podSelector: {}, ingress: [{ from: from.slice(0, 21), ports }] });
    expect([whole.value?.spec.ingress?.length, whole.problems]).toEqual([21, []]);
  });

  it('is missing when the pods it applies to cannot be read', () => {
    const { value, problems } = convert({ podSelector: { matchLabels: { a: 1 } } });
    expect(value).toBeUndefined();
    expect(problems).toEqual([expect.stringContaining('Kubernetes NetworkPolicy shop/web cannot be used')]);
  });
});
