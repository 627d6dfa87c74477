// Cases of Kubernetes' NetworkPolicy: pods a, b and c in each of the namespaces x, y and z, the node, and a machine outside of
// the cluster, with servers on ports 80 and 81.
import type { TestPolicy } from './policy-cluster.ts';

export interface ConformanceCase {
  readonly title: string;
  readonly policies: readonly TestPolicy[];
  /** `FROM -> TO[:PORT][/PROTOCOL]`, for both families, or ` over IPv4` or ` over IPv6`. */
  readonly allowed: readonly string[];
  readonly denied: readonly string[];
}

const ALL = {};
const pod = (name: string) => ({ podSelector: { matchLabels: { pod: name } } });
const ns = (name: string) => ({ namespaceSelector: { matchLabels: { ns: name } } });
const anyPod = { podSelector: ALL };
const anyNs = { namespaceSelector: ALL };
const tcp = (port: number | string) => ({ protocol: 'TCP', port });

let count = 0;
function policy(namespace: string, spec: object): TestPolicy {
  count += 1;
  return { namespace, name: `p${String(count)}`, spec };
}
/** A policy of ingress for the pod, or all pods of the namespace. */
function into(at: string, ...ingress: readonly object[]): TestPolicy {
  return policy(namespaceOf(at), { ...subject(at), policyTypes: ['Ingress'], ingress });
}
function outOf(at: string, ...egress: readonly object[]): TestPolicy {
  return policy(namespaceOf(at), { ...subject(at), policyTypes: ['Egress'], egress });
}
function namespaceOf(at: string): string {
  return at.split('/')[0] ?? '';
}
function subject(at: string): object {
  const [, name = '*'] = at.split('/');
  return name === '*' ? anyPod : pod(name);
}

const EVERYTHING = ['x/b -> x/a', 'y/a -> x/a:81', 'z/c -> x/a/udp', 'x/a -> y/a', 'x/a -> host', 'host -> x/a'];

export const CASES: readonly ConformanceCase[] = [
  { title: 'without a policy reach each other', policies: [], allowed: EVERYTHING, denied: [] },
  {
    title: 'L1 deny all ingress, also of their own namespace, and keep egress and the own node',
    policies: [into('x/*')],
    allowed: ['x/a -> y/a', 'x/a -> host', 'host -> x/a', 'y/a -> z/a'],
    denied: ['x/b -> x/a', 'y/a -> x/a', 'y/a -> x/a/udp'],
  },
  {
    title: 'L2 deny all in both directions',
    policies: [policy('x', { podSelector: {}, policyTypes: ['Ingress', 'Egress'] })],
    allowed: ['host -> x/a', 'y/a -> z/a'],
    denied: ['x/a -> x/b', 'x/a -> y/a', 'y/a -> x/a', 'x/a -> host'],
  },
  {
    title: 'L3 allow a pod of the own namespace by labels, and not its namesake elsewhere',
    policies: [into('x/a', { from: [pod('b')] })],
    allowed: ['x/b -> x/a', 'y/a -> x/b'],
    denied: ['x/c -> x/a', 'y/b -> x/a'],
  },
  {
    title: 'L4 allow another namespace',
    policies: [into('x/a', { from: [ns('y')] })],
    allowed: ['y/a -> x/a', 'y/c -> x/a'],
    denied: ['x/b -> x/a', 'z/a -> x/a'],
  },
  {
    title: 'L5 read expressions of pods; NotIn selects pods without the label',
    policies: [
      into('x/a', {
        from: [
          {
            podSelector: {
              matchExpressions: [
                { key: 'pod', operator: 'In', values: ['b', 'q'] },
                { key: 'absent', operator: 'NotIn', values: ['v'] },
              ],
            },
          },
        ],
      }),
    ],
    allowed: ['x/b -> x/a'],
    denied: ['x/c -> x/a'],
  },
  {
    title: 'L6 read expressions of namespaces',
    policies: [
      into('x/a', {
        from: [
          {
            namespaceSelector: {
              matchExpressions: [
                { key: 'ns', operator: 'NotIn', values: ['x', 'z'] },
                { key: 'absent', operator: 'DoesNotExist' },
              ],
            },
          },
        ],
      }),
    ],
    allowed: ['y/a -> x/a'],
    denied: ['x/b -> x/a', 'z/a -> x/a'],
  },
  {
    title: 'L7 allow one peer or the other',
    policies: [into('x/a', { from: [ns('y'), pod('b')] })],
    allowed: ['y/c -> x/a', 'x/b -> x/a'],
    denied: ['x/c -> x/a', 'z/b -> x/a'],
  },
  {
    title: 'L8 allow pods of a namespace when one peer has both selectors',
    policies: [into('x/a', { from: [{ ...ns('y'), ...pod('b') }] })],
    allowed: ['y/b -> x/a'],
    denied: ['y/a -> x/a', 'x/b -> x/a'],
  },
  {
    title: 'L10 allow a port',
    policies: [into('x/a', { ports: [tcp(81)] })],
    allowed: ['y/a -> x/a:81', 'x/b -> x/a:81'],
    denied: ['y/a -> x/a:80', 'y/a -> x/a:81/udp'],
  },
  {
    title: 'L11 add up policies that overlap',
    policies: [into('x/a', { ports: [tcp(80)] }), into('x/*', { from: [ns('y')], ports: [tcp(81)] })],
    allowed: ['z/a -> x/a:80', 'y/a -> x/a:81', 'y/a -> x/b:81'],
    denied: ['z/a -> x/a:81', 'y/a -> x/b:80'],
  },
  {
    title: 'L12 allow everything by an empty rule',
    policies: [into('x/*'), into('x/*', {})],
    allowed: [...EVERYTHING, 'y/a -> x/a/udp'],
    denied: [],
  },
  {
    title: 'allow everything when peers and ports are empty lists, also from outside and without ports',
    policies: [into('x/*', { from: [], ports: [] })],
    allowed: [...EVERYTHING, 'out -> x/a', 'y/a -> x/a/icmp', 'out -> x/a/icmp'],
    denied: [],
  },
  {
    title: 'L13 resolve a named port by the pod that receives: the same name is another number elsewhere',
    policies: [into('x/a', { ports: [tcp('web')] }), into('y/a', { ports: [tcp('web')] })],
    allowed: ['z/a -> x/a:80', 'z/a -> y/a:81'],
    denied: ['z/a -> x/a:81', 'z/a -> y/a:80'],
  },
  {
    title: 'L15 resolve a named port of egress by each peer, and keep the protocol',
    policies: [outOf('x/a', { ports: [tcp('web'), { protocol: 'UDP', port: 'dns' }] })],
    allowed: ['x/a -> y/a:81', 'x/a -> z/a:80', 'x/a -> y/a:80/udp'],
    denied: ['x/a -> y/a:80', 'x/a -> z/a:81', 'x/a -> y/a:81/udp'],
  },
  {
    title: 'match no pod by a port name that it does not have',
    policies: [into('x/a', { ports: [tcp('absent')] })],
    allowed: ['y/a -> x/b'],
    denied: ['y/a -> x/a:80', 'y/a -> x/a:81'],
  },
  {
    title: 'L20 combine ingress and egress in one policy',
    policies: [
      policy('x', {
        ...pod('a'),
        policyTypes: ['Ingress', 'Egress'],
        ingress: [{ from: [ns('y')] }],
        egress: [{ to: [ns('z')] }],
      }),
    ],
    allowed: ['y/a -> x/a', 'x/a -> z/a'],
    denied: ['z/a -> x/a', 'x/a -> y/a'],
  },
  {
    title: 'L21 allow egress to a pod of another namespace',
    policies: [outOf('x/a', { to: [{ ...ns('y'), ...pod('a') }] })],
    allowed: ['x/a -> y/a', 'x/b -> y/b'],
    denied: ['x/a -> y/b', 'x/a -> x/b', 'x/a -> host'],
  },
  {
    title: 'L22 let a policy that allows all win',
    policies: [into('x/a', { ports: [tcp(80)] }), into('x/*', {})],
    allowed: ['y/a -> x/a:81', 'y/a -> x/a:80'],
    denied: [],
  },
  {
    title: 'L25 allow egress to a CIDR around a pod',
    policies: [
      outOf('x/a', { to: [{ ipBlock: { cidr: '10.65.1.1/32' } }, { ipBlock: { cidr: 'fd00:65::1:1/128' } }] }),
    ],
    allowed: ['x/a -> y/a'],
    denied: ['x/a -> y/b', 'x/a -> z/a'],
  },
  {
    title: 'L26 exclude what a CIDR excepts',
    policies: [
      outOf('x/a', {
        to: [
          { ipBlock: { cidr: '10.65.0.0/16', except: ['10.65.1.0/30'] } },
          { ipBlock: { cidr: 'fd00:65::/64', except: ['fd00:65::1:0/126'] } },
        ],
      }),
    ],
    allowed: ['x/a -> z/a'],
    denied: ['x/a -> y/a', 'x/a -> y/b'],
  },
  {
    title: 'T5 let another rule allow what an exception of a CIDR leaves out',
    policies: [
      into(
        'x/a',
        {
          from: [
            { ipBlock: { cidr: '0.0.0.0/0', except: ['10.65.1.0/24'] } },
            { ipBlock: { cidr: '::/0', except: ['fd00:65::1:0/112'] } },
          ],
        },
        { from: [{ ...ns('y'), ...pod('b') }] },
      ),
    ],
    allowed: ['z/a -> x/a', 'y/b -> x/a'],
    denied: ['y/a -> x/a'],
  },
  {
    title: 'L27 let another policy allow what an exception of a CIDR leaves out',
    policies: [
      outOf('x/a', {
        to: [
          { ipBlock: { cidr: '10.65.0.0/16', except: ['10.65.1.1/32'] } },
          { ipBlock: { cidr: 'fd00:65::/64', except: ['fd00:65::1:1/128'] } },
        ],
      }),
      outOf('x/a', { to: [{ ipBlock: { cidr: '10.65.1.1/32' } }, { ipBlock: { cidr: 'fd00:65::1:1/128' } }] }),
    ],
    allowed: ['x/a -> y/a', 'x/a -> z/a'],
    denied: ['x/a -> host'],
  },
  {
    title: 'accept CIDRs of one rule that overlap',
    policies: [
      into('x/a', {
        from: [
          { ipBlock: { cidr: '10.65.1.0/24' } },
          { ipBlock: { cidr: '10.65.0.0/16' } },
          { ipBlock: { cidr: 'fd00:65::/64' } },
          { ipBlock: { cidr: 'fd00:65::/65' } },
        ],
      }),
    ],
    allowed: ['y/a -> x/a', 'z/a -> x/a'],
    denied: [],
  },
  {
    title: 'L28 need both ends to allow',
    policies: [outOf('x/a'), into('y/a', {})],
    allowed: ['x/b -> y/a'],
    denied: ['x/a -> y/a'],
  },
  {
    title: 'L29 stay isolated by a rule of SCTP alone',
    policies: [into('x/a', { ports: [{ protocol: 'SCTP', port: 80 }] })],
    allowed: ['y/a -> x/b'],
    denied: ['y/a -> x/a', 'y/a -> x/a/udp'],
  },
  {
    title: 'N6 refuse their own namespace when only others are allowed',
    policies: [into('x/*', { from: [ns('y')] })],
    allowed: ['y/a -> x/b'],
    denied: ['x/a -> x/b', 'z/a -> x/b'],
  },
  {
    title: 'N8 read an empty namespace selector as every pod and no address outside',
    policies: [into('x/a', { from: [anyNs] })],
    allowed: ['y/a -> x/a', 'z/c -> x/a', 'x/b -> x/a', 'out -> x/b'],
    denied: ['out -> x/a', 'out -> x/a/icmp'],
  },
  {
    title: 'N12 read an empty pod selector as the own namespace',
    policies: [into('x/a', { from: [anyPod] })],
    allowed: ['x/b -> x/a'],
    denied: ['y/a -> x/a'],
  },
  {
    title: 'N25 deny egress of a pod',
    policies: [outOf('x/a')],
    allowed: ['y/a -> x/a', 'x/b -> y/a'],
    denied: ['x/a -> y/a', 'x/a -> x/b'],
  },
  {
    title: 'N30 allow every port of a protocol',
    policies: [into('x/a', { ports: [{ protocol: 'UDP' }] })],
    allowed: ['y/a -> x/a:80/udp', 'y/a -> x/a:81/udp'],
    denied: ['y/a -> x/a:80'],
  },
  {
    title: 'N40 refuse TCP when only UDP is allowed',
    policies: [into('x/a', { ports: [{ protocol: 'UDP', port: 80 }] })],
    allowed: ['y/a -> x/a:80/udp'],
    denied: ['y/a -> x/a:80', 'y/a -> x/a:81/udp'],
  },
  {
    title: 'N41 select a namespace by its default label',
    policies: [into('x/a', { from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'y' } } }] })],
    allowed: ['y/a -> x/a'],
    denied: ['z/a -> x/a', 'x/b -> x/a'],
  },
  {
    title: 'allow a range of ports',
    policies: [into('x/a', { ports: [{ protocol: 'TCP', port: 81, endPort: 90 }] })],
    allowed: ['y/a -> x/a:81'],
    denied: ['y/a -> x/a:80'],
  },
  {
    title: 'read a port without protocol as TCP',
    policies: [into('x/a', { ports: [{ port: 80 }] })],
    allowed: ['y/a -> x/a:80'],
    denied: ['y/a -> x/a:80/udp', 'y/a -> x/a:81'],
  },
  {
    title: 'are isolated for ingress only when policyTypes and egress are absent',
    policies: [policy('x', { podSelector: {} })],
    allowed: ['x/a -> y/a'],
    denied: ['y/a -> x/a'],
  },
  {
    title: 'are isolated for egress too when policyTypes is absent and a rule of egress is there',
    policies: [policy('x', { ...pod('a'), ingress: [{}], egress: [{ to: [ns('y')] }] })],
    allowed: ['x/a -> y/a', 'z/a -> x/a'],
    denied: ['x/a -> z/a', 'x/a -> out'],
  },
  {
    title: 'N42 select no namespace by its default label when an expression excludes it',
    policies: [
      into('x/a', {
        from: [
          {
            namespaceSelector: {
              matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['y'] }],
            },
          },
        ],
      }),
    ],
    allowed: ['z/a -> x/a', 'x/b -> x/a'],
    denied: ['y/a -> x/a', 'out -> x/a'],
  },
  {
    title: 'match machines outside of the cluster by networks alone, and several exceptions of one',
    policies: [
      into('x/a', {
        from: [
          { ipBlock: { cidr: '0.0.0.0/0', except: ['10.65.1.0/24', '10.65.2.0/24'] } },
          { ipBlock: { cidr: '::/0', except: ['fd00:65::1:0/112', 'fd00:65::2:0/112'] } },
        ],
      }),
      into('x/b', { from: [ns('y')] }),
    ],
    allowed: ['out -> x/a', 'x/b -> x/a', 'y/a -> x/b'],
    denied: ['y/a -> x/a', 'z/a -> x/a', 'out -> x/b'],
  },
  {
    title: 'read every IPv4 address as no IPv6 address, and the reverse',
    policies: [
      into('x/a', { from: [{ ipBlock: { cidr: '0.0.0.0/0' } }] }),
      into('x/b', { from: [{ ipBlock: { cidr: '::/0' } }] }),
    ],
    allowed: ['y/a -> x/a over IPv4', 'out -> x/b over IPv6'],
    denied: ['y/a -> x/a over IPv6', 'out -> x/b over IPv4'],
  },
  {
    title: 'drop echo requests to an isolated pod, and those that a rule of ports would have to name',
    policies: [into('x/a'), into('x/b', { ports: [tcp(80)] })],
    allowed: ['y/a -> x/c/icmp', 'x/a -> y/a/icmp', 'host -> x/a/icmp', 'y/a -> x/b'],
    denied: ['y/a -> x/a/icmp', 'y/a -> x/b/icmp', 'out -> x/a/icmp'],
  },
  {
    title: 'leave a range of one port, and of all, what it is',
    policies: [
      into('x/a', { ports: [{ protocol: 'TCP', port: 80, endPort: 80 }] }),
      into('x/b', { ports: [{ protocol: 'UDP', port: 1, endPort: 65_535 }] }),
    ],
    allowed: ['y/a -> x/a:80', 'y/a -> x/b:80/udp', 'y/a -> x/b:81/udp'],
    denied: ['y/a -> x/a:81', 'y/a -> x/b:80'],
  },
  {
    title: 'find a port name in no network: a pod there is matched by it, a machine outside is not',
    policies: [
      outOf('x/a', {
        to: [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }],
        ports: [tcp('web')],
      }),
    ],
    allowed: ['x/a -> y/a:81', 'x/a -> z/a:80'],
    denied: ['x/a -> y/a:80', 'x/a -> out:80', 'x/a -> out:81'],
  },
];
