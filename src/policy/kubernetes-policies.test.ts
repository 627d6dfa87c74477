import { describe, expect, it } from 'vitest';
import { fromKubernetesPolicy } from '../model/from-kubernetes/network-policy.ts';
import { fromPod } from '../model/from-kubernetes/pod.ts';
import { fromNamespace } from '../model/from-kubernetes/profiles.ts';
import { resourceIdOf } from '../model/resource-id.ts';
import { parseAddress } from '../net/address.ts';
import { endAt, evaluateConnection } from './evaluate.ts';
import type { PolicyChange } from './policy-change.ts';
import { PolicyState } from './policy-state.ts';

/** Pods by the last number of their addresses. Each serves `web`: 80, but `x/b` serves it at 81. */
const PODS = [
  { host: 1, namespace: 'x', name: 'a', labels: { pod: 'a' }, web: 80 },
  { host: 2, namespace: 'x', name: 'b', labels: { pod: 'b' }, web: 81 },
  { host: 3, namespace: 'y', name: 'a', labels: { pod: 'a' }, web: 80 },
  { host: 4, namespace: 'y', name: 'c', labels: {}, web: undefined },
];
/** `OUT` is in no cluster. */
const HOSTS: Readonly<Record<string, number>> = { 'x/a': 1, 'x/b': 2, 'y/a': 3, 'y/c': 4, OUT: 99 };
const PROTOCOLS: Readonly<Record<string, number>> = { TCP: 6, UDP: 17, SCTP: 132, ICMP: 1 };

function viewWith(...specs: readonly unknown[]): PolicyState {
  const view = new PolicyState();
  const resources = [
    fromNamespace({ metadata: { name: 'x', labels: { ns: 'x' } } }),
    fromNamespace({ metadata: { name: 'y', labels: { ns: 'y' } } }),
    ...specs.flatMap((spec, index) => {
      const metadata = { name: `p${String(index)}`, namespace: 'x' };
      return fromKubernetesPolicy({ metadata, spec }).value ?? [];
    }),
  ];
  view.apply([
    ...resources.map((value): PolicyChange => ({ kind: 'resource', which: resourceIdOf(value), value })),
    ...PODS.map(({ host, namespace, name, labels, web }): PolicyChange => {
      const ports = web === undefined ? [] : [{ name: 'web', containerPort: web }];
      const { value } = fromPod({
        metadata: { name, namespace, labels },
        spec: { nodeName: 'n1', serviceAccountName: 'default', containers: [{ ports }] },
        status: { podIPs: [{ ip: `10.0.0.${String(host)}` }, { ip: `fd00::${String(host)}` }] },
      });
      return { kind: 'endpoint', key: `${namespace}/${name}`, value };
    }),
  ]);
  return view;
}

/** Labels of users with names that selectors of netplug give another meaning. */
const RESERVED = [
  'pcns.team',
  'pcsa.team',
  'pcown.team',
  'pcown.pcns.team',
  'netplug/namespace',
  'netplug/orchestrator',
];

describe('a label of a user whose name netplug reserves', () => {
  const viewOf = (labels: Readonly<Record<string, string>>, spec: object): PolicyState => {
    const view = viewWith();
    const { value } = fromPod({
      metadata: { name: 'b', namespace: 'x', labels },
      spec: { nodeName: 'n1', serviceAccountName: 'default', containers: [] },
      status: { podIPs: [{ ip: '10.0.0.2' }] },
    });
    const policy = fromKubernetesPolicy({ metadata: { name: 'p', namespace: 'x' }, spec }).value;
    if (policy === undefined) throw new Error('the policy cannot be read');
    view.apply([
      { kind: 'endpoint', key: 'x/b', value },
      { kind: 'resource', which: resourceIdOf(policy), value: policy },
    ]);
    return view;
  };

  it.each(RESERVED)('selects the pods that a policy of Kubernetes isolates: %s', (label) => {
    const spec = { podSelector: { matchLabels: { [label]: 'y' } }, policyTypes: ['Ingress'] };
    expect(isAllowed(viewOf({ [label]: 'y' }, spec), 'x/a > x/b')).toBe(false);
    expect(isAllowed(viewOf({}, spec), 'x/a > x/b')).toBe(true);
  });

  it.each(RESERVED)('keeps a pod out of peers that must not have it: %s', (label) => {
    const podSelector = { matchExpressions: [{ key: label, operator: 'DoesNotExist' }] };
    const view = viewOf({ [label]: 'y' }, { podSelector: {}, ingress: [{ from: [{ podSelector }] }] });
    expect(isAllowed(view, 'x/b > x/a')).toBe(false);
  });

  it('selects a namespace that is named like none', () => {
    const view = viewWith({
      podSelector: {},
      ingress: [{ from: [{ namespaceSelector: { matchLabels: { 'netplug/name': 'special' } } }] }],
    });
    expect(isAllowed(view, 'y/a > x/a')).toBe(false);
    const value = fromNamespace({ metadata: { name: 'y', labels: { 'netplug/name': 'special' } } });
    view.apply([{ kind: 'resource', which: resourceIdOf(value), value }]);
    expect(isAllowed(view, 'y/a > x/a')).toBe(true);
  });
});

/** `x/a > x/b TCP 80`; over IPv6 with ` v6` behind. */
function isAllowed(view: PolicyState, connection: string): boolean {
  const [from = '', , to = '', protocol = 'TCP', port = '80', family] = connection.split(' ');
  const prefix = family === 'v6' ? 'fd00::' : '10.0.0.';
  const [source, destination] = [from, to].map((end) => parseAddress(`${prefix}${String(HOSTS[end])}`));
  if (source === undefined || destination === undefined) throw new Error(`"${connection}" has no ends`);
  const ports = protocol === 'ICMP' ? {} : { sourcePort: 40_000, destinationPort: Number(port) };
  const packet = { source, destination, protocol: PROTOCOLS[protocol] ?? 0, ...ports };
  const { verdict } = evaluateConnection(view, {
    source: endAt(view, source),
    destination: endAt(view, destination),
    packet: protocol === 'ICMP' ? { ...packet, icmp: { type: 8, code: 0 } } : packet,
    endpointToHost: 'Accept',
  });
  return verdict === 'allow';
}

interface Row {
  readonly what: string;
  readonly policies: readonly unknown[];
  readonly allowed?: readonly string[];
  readonly denied?: readonly string[];
}

/** Policies are in namespace `x`. */
const onlyA = { matchLabels: { pod: 'a' } };
const onlyB = { matchLabels: { pod: 'b' } };
const toX = (ingress?: unknown, more: object = {}): unknown => ({ podSelector: {}, ingress, ...more });
const from = (...peers: readonly unknown[]): unknown => [{ from: peers }];
const ports = (...entries: readonly unknown[]): unknown => [{ ports: entries }];
const fromX = (egress?: unknown): unknown => ({ podSelector: {}, policyTypes: ['Egress'], egress });

const SHAPE: readonly Row[] = [
  { what: 'no policy allows everything', policies: [], allowed: ['x/a > y/a', 'OUT > x/a', 'x/a > OUT ICMP'] },
  {
    what: 'policies add up, in any order',
    policies: [
      toX(from({ podSelector: onlyB })),
      toX(from({ namespaceSelector: { matchLabels: { ns: 'y' } } })),
      toX(),
    ],
    allowed: ['x/b > x/a', 'y/a > x/a', 'y/c > x/b'],
    denied: ['x/a > x/b', 'OUT > x/a'],
  },
  {
    what: 'both ends must allow',
    policies: [toX(from({ podSelector: {} })), fromX([{ to: [{ podSelector: onlyA }] }])],
    allowed: ['x/b > x/a'],
    denied: ['x/a > x/b', 'x/a > y/a', 'y/a > x/a'],
  },
  {
    what: 'isolation of one direction says nothing about the other',
    policies: [toX()],
    allowed: ['x/a > y/a', 'x/a > OUT'],
    denied: ['y/a > x/a', 'x/a > x/b'],
  },
  {
    what: 'an empty podSelector selects all pods of the namespace and no others',
    policies: [toX()],
    allowed: ['x/a > y/a', 'y/c > y/a'],
    denied: ['y/a > x/a', 'y/a > x/b'],
  },
  {
    what: 'absent policyTypes are Ingress',
    policies: [{ podSelector: onlyA }],
    allowed: ['x/a > x/b', 'x/a > OUT'],
    denied: ['x/b > x/a'],
  },
  {
    what: 'absent policyTypes with egress rules are both',
    policies: [{ podSelector: onlyA, egress: [{ to: [{ podSelector: onlyB }] }] }],
    allowed: ['x/a > x/b'],
    denied: ['x/b > x/a', 'x/a > y/a'],
  },
  {
    what: 'absent policyTypes with an empty egress list are Ingress',
    policies: [{ podSelector: onlyA, egress: [] }],
    allowed: ['x/a > x/b'],
    denied: ['x/b > x/a'],
  },
  {
    what: 'Egress without rules denies all egress',
    policies: [fromX()],
    allowed: ['y/a > x/a'],
    denied: ['x/a > x/b'],
  },
  {
    what: 'rules of a direction that is no type are ignored',
    policies: [{ podSelector: {}, policyTypes: ['Egress'], ingress: [], egress: [{}] }],
    allowed: ['y/a > x/a', 'x/a > OUT'],
  },
  { what: 'an absent list of rules isolates', policies: [toX()], denied: ['y/a > x/a', 'OUT > x/a ICMP'] },
  { what: 'an empty list of rules isolates', policies: [toX([])], denied: ['y/a > x/a', 'OUT > x/a UDP 80'] },
  {
    what: 'an empty rule allows everything',
    policies: [toX([{}])],
    allowed: ['y/a > x/a', 'OUT > x/a UDP 7', 'OUT > x/a ICMP', 'OUT > x/a TCP 80 v6'],
  },
  {
    what: 'an empty from is any source',
    policies: [toX([{ from: [], ports: [{ port: 80 }] }])],
    allowed: ['OUT > x/a', 'y/c > x/a'],
    denied: ['OUT > x/a TCP 81'],
  },
  {
    what: 'empty ports are every protocol',
    policies: [toX([{ from: [{ podSelector: onlyB }], ports: [] }])],
    allowed: ['x/b > x/a TCP 9', 'x/b > x/a ICMP', 'x/b > x/a SCTP 9'],
    denied: ['y/a > x/a'],
  },
  {
    what: 'a podSelector alone means pods of the namespace of the policy',
    policies: [toX(from({ podSelector: onlyA }))],
    allowed: ['x/a > x/b'],
    denied: ['y/a > x/b', 'OUT > x/b'],
  },
  {
    what: 'a namespaceSelector alone means all pods of the namespaces',
    policies: [toX(from({ namespaceSelector: { matchLabels: { ns: 'y' } } }))],
    allowed: ['y/a > x/a', 'y/c > x/a'],
    denied: ['x/b > x/a', 'OUT > x/a'],
  },
  {
    what: 'an empty namespaceSelector means all pods, and never addresses outside',
    policies: [toX(from({ namespaceSelector: {} }))],
    allowed: ['x/b > x/a', 'y/c > x/a'],
    denied: ['OUT > x/a', 'OUT > x/a TCP 80 v6'],
  },
  {
    what: 'both selectors of one peer must match',
    policies: [toX(from({ namespaceSelector: { matchLabels: { ns: 'y' } }, podSelector: onlyA }))],
    allowed: ['y/a > x/b'],
    denied: ['y/c > x/b', 'x/a > x/b'],
  },
  {
    what: 'peers are alternatives',
    policies: [toX(from({ namespaceSelector: { matchLabels: { ns: 'y' } } }, { podSelector: onlyA }))],
    allowed: ['y/c > x/b', 'x/a > x/b'],
    denied: ['x/b > x/a', 'OUT > x/a'],
  },
  {
    what: 'In and Exists need the label',
    policies: [
      toX(from({ namespaceSelector: {}, podSelector: { matchExpressions: [{ key: 'pod', operator: 'Exists' }] } })),
    ],
    allowed: ['y/a > x/b'],
    denied: ['y/c > x/b'],
  },
  {
    what: 'NotIn and DoesNotExist select pods without the label',
    policies: [
      toX(
        from({
          namespaceSelector: {},
          podSelector: { matchExpressions: [{ key: 'pod', operator: 'NotIn', values: ['a'] }] },
        }),
      ),
    ],
    allowed: ['y/c > x/a', 'x/b > x/a'],
    denied: ['y/a > x/b', 'OUT > x/a'],
  },
];

const PORTS_AND_NETS: readonly Row[] = [
  {
    what: 'a port without protocol is TCP',
    policies: [toX(ports({ port: 80 }))],
    allowed: ['OUT > x/a TCP 80'],
    denied: ['OUT > x/a UDP 80', 'OUT > x/a SCTP 80', 'OUT > x/a TCP 81', 'OUT > x/a ICMP'],
  },
  {
    what: 'an entry without port is all ports of its protocol',
    policies: [toX(ports({ protocol: 'UDP' }))],
    allowed: ['OUT > x/a UDP 1', 'OUT > x/a UDP 65535'],
    denied: ['OUT > x/a TCP 80'],
  },
  {
    what: 'a named port is resolved for each pod that receives',
    policies: [toX(ports({ port: 'web' }))],
    allowed: ['OUT > x/a TCP 80', 'OUT > x/b TCP 81'],
    denied: ['OUT > x/a TCP 81', 'OUT > x/b TCP 80', 'OUT > x/a UDP 80'],
  },
  {
    what: 'a named port of egress is resolved for each peer, and nothing outside has names',
    policies: [fromX([{ ports: [{ port: 'web' }] }])],
    allowed: ['x/a > x/b TCP 81', 'x/a > y/a TCP 80'],
    denied: ['x/a > x/b TCP 80', 'x/a > y/c TCP 80', 'x/a > OUT TCP 80'],
  },
  {
    what: 'endPort makes a range that includes both ends',
    policies: [toX(ports({ port: 80, endPort: 82 }))],
    allowed: ['OUT > x/a TCP 80', 'OUT > x/a TCP 82'],
    denied: ['OUT > x/a TCP 79', 'OUT > x/a TCP 83', 'OUT > x/a UDP 81'],
  },
  {
    what: 'endPort below port allows nothing, and other rules stay',
    policies: [toX([{ ports: [{ port: 80, endPort: 79 }] }, { ports: [{ port: 443 }] }])],
    allowed: ['OUT > x/a TCP 443'],
    denied: ['OUT > x/a TCP 80', 'OUT > x/a TCP 79'],
  },
  {
    what: 'endPort with a named port allows nothing',
    policies: [toX(ports({ port: 'web', endPort: 81 }))],
    denied: ['OUT > x/a TCP 80', 'OUT > x/b TCP 81'],
  },
  {
    what: 'an SCTP rule isolates, and opens SCTP alone',
    policies: [toX(ports({ protocol: 'SCTP', port: 80 }))],
    allowed: ['OUT > x/a SCTP 80'],
    denied: ['OUT > x/a TCP 80', 'OUT > x/a UDP 80'],
  },
  {
    what: 'an ipBlock matches addresses outside, and those of pods',
    policies: [toX(from({ ipBlock: { cidr: '10.0.0.64/26' } }, { ipBlock: { cidr: '10.0.0.3/32' } }))],
    allowed: ['OUT > x/a', 'y/a > x/a'],
    denied: ['x/b > x/a', 'OUT > x/a TCP 80 v6'],
  },
  {
    what: 'except takes its networks from one peer alone',
    policies: [
      toX(from({ ipBlock: { cidr: '10.0.0.0/24', except: ['10.0.0.2/31', '10.0.0.4/32'] } }, { podSelector: onlyB })),
    ],
    allowed: ['OUT > x/a', 'x/b > x/a', 'x/a > x/b'],
    denied: ['y/a > x/a', 'y/c > x/a'],
  },
  {
    what: 'what one policy excepts, another can allow',
    policies: [
      toX(from({ ipBlock: { cidr: '10.0.0.0/24', except: ['10.0.0.99/32'] } })),
      toX(from({ ipBlock: { cidr: '10.0.0.99/32' } })),
    ],
    allowed: ['OUT > x/a', 'y/a > x/a'],
  },
  {
    what: '0.0.0.0/0 says nothing about IPv6, nor ::/0 about IPv4',
    policies: [toX(from({ ipBlock: { cidr: '0.0.0.0/0' } })), fromX([{ to: [{ ipBlock: { cidr: '::/0' } }] }])],
    allowed: ['OUT > x/a', 'x/a > OUT TCP 80 v6'],
    denied: ['OUT > x/a TCP 80 v6', 'x/a > OUT'],
  },
  {
    what: 'a network with host bits means its network',
    policies: [toX(from({ ipBlock: { cidr: '10.0.0.70/26' } }))],
    allowed: ['OUT > x/a'],
    denied: ['y/a > x/a'],
  },
  {
    what: 'except outside of its network makes the rule allow nothing',
    policies: [toX([{ from: [{ ipBlock: { cidr: '10.0.0.0/24', except: ['10.1.0.0/24'] } }] }])],
    denied: ['OUT > x/a', 'y/a > x/a'],
  },
  {
    what: 'a peer that says nothing known allows nothing',
    policies: [toX(from({ future: {} })), toX(from({}))],
    denied: ['OUT > x/a', 'x/b > x/a'],
  },
];

describe('a Kubernetes network policy', () => {
  it.each([...SHAPE, ...PORTS_AND_NETS])('$what', ({ policies, allowed = [], denied = [] }) => {
    const view = viewWith(...policies);
    expect(allowed.filter((connection) => !isAllowed(view, connection))).toEqual([]);
    expect(denied.filter((connection) => isAllowed(view, connection))).toEqual([]);
  });
});

describe('a change of labels', () => {
  const policies = [toX(from({ namespaceSelector: { matchLabels: { ns: 'y' } }, podSelector: onlyA }))];

  it('takes effect in both directions when it is of a pod', () => {
    const view = viewWith(...policies);
    const relabel = (labels: Readonly<Record<string, string>>): void => {
      const { value } = fromPod({
        metadata: { name: 'c', namespace: 'y', labels },
        spec: { nodeName: 'n1' },
        status: { podIPs: [{ ip: '10.0.0.4' }] },
      });
      view.apply([{ kind: 'endpoint', key: 'y/c', value }]);
    };
    expect(isAllowed(view, 'y/c > x/a')).toBe(false);
    relabel({ pod: 'a' });
    expect(isAllowed(view, 'y/c > x/a')).toBe(true);
    relabel({});
    expect(isAllowed(view, 'y/c > x/a')).toBe(false);
  });

  it('takes effect in both directions when it is of a namespace', () => {
    const view = viewWith(...policies);
    const relabel = (labels: Readonly<Record<string, string>>): void => {
      const value = fromNamespace({ metadata: { name: 'y', labels } });
      view.apply([{ kind: 'resource', which: resourceIdOf(value), value }]);
    };
    expect(isAllowed(view, 'y/a > x/a')).toBe(true);
    relabel({ ns: 'other' });
    expect(isAllowed(view, 'y/a > x/a')).toBe(false);
    relabel({ ns: 'y' });
    expect(isAllowed(view, 'y/a > x/a')).toBe(true);
  });

  it('takes effect when it is of a policy, and a deleted policy isolates nothing', () => {
    const view = viewWith(toX());
    const put = (spec: unknown): void => {
      const { value } = fromKubernetesPolicy({ metadata: { name: 'p0', namespace: 'x' }, spec });
      if (value === undefined) throw new Error('the policy cannot be used');
      view.apply([{ kind: 'resource', which: resourceIdOf(value), value }]);
    };
    expect(isAllowed(view, 'y/a > x/a')).toBe(false);
    put(toX([{}]));
    expect(isAllowed(view, 'y/a > x/a')).toBe(true);
    put(toX([]));
    view.apply([{ kind: 'resource', which: { kind: 'NetworkPolicy', namespace: 'x', name: 'knp.default.p0' } }]);
    expect(isAllowed(view, 'y/a > x/a')).toBe(true);
  });
});
