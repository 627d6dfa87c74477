// Random changes of a cluster, for comparing implementations of policies.
import * as fc from 'fast-check';
import type { AnyResource } from '../../src/model/kinds.ts';
import { API_VERSION } from '../../src/model/resource.ts';
import { NODE, type PolicyCluster, type TestPod } from './policy-cluster.ts';

/** Changes the cluster. */
export type Apply = (cluster: PolicyCluster) => ReturnType<PolicyCluster['put']>;

const role = fc.constantFrom('a', 'b', 'c');
const namespace = fc.constantFrom('x', 'y');
const name = fc.constantFrom('p', 'q', 'r');

const peer = fc.oneof(
  fc.record({ selector: fc.constantFrom("role == 'a'", "role != 'b'", 'all()', "kind == 'set'", 'has(missing)') }),
  fc.record({ notSelector: fc.constantFrom("role == 'a'", "kind == 'set'") }),
  fc.record({ namespaceSelector: fc.constantFrom("team == 'red'", 'global()') }),
  fc.record({ nets: fc.constant(['10.65.0.0/16', '10.65.0.0/24']) }),
  fc.record({ nets: fc.constantFrom(['192.0.2.0/24', '2001:db8::/32'], ['192.0.2.7/32']) }),
  fc.record({ notNets: fc.constant(['192.0.2.0/24', '2001:db8::/32']) }),
  fc.constant({}),
);
const ports = fc.oneof(
  fc.record({ ports: fc.constantFrom([80], ['web'], ['web', '81:90'], [80, 443, '1000:2000']) }),
  fc.record({ notPorts: fc.constantFrom([80], ['web'], ['web', 443]) }),
  fc.constant({}),
);
const rule = fc
  .tuple(fc.constantFrom('Allow', 'Deny', 'Pass', 'Log'), fc.constantFrom('TCP', 'UDP'), peer, peer, ports)
  .map(([action, protocol, source, destination, more]) => ({
    action,
    protocol,
    source,
    destination: { ...destination, ...more },
  }));

const http = fc.record({
  methods: fc.constantFrom(undefined, ['GET'], ['GET', 'POST'], ['*']),
  paths: fc.constantFrom(undefined, [{ exact: '/a' }], [{ prefix: '/a' }, { exact: '/b' }], [{ prefix: '/a/' }]),
});
const account = fc.constantFrom(
  { serviceAccounts: { names: ['one'] } },
  { serviceAccounts: { names: ['one', 'two'] } },
);

/** Rules for what pods receive may ask for requests and accounts. */
const ingressRule = fc.oneof(
  { weight: 2, arbitrary: rule },
  fc.tuple(rule, http).map(([one, asked]) => ({ ...one, action: 'Allow', protocol: 'TCP', http: asked })),
  fc.tuple(rule, account).map(([one, { serviceAccounts }]) => ({ ...one, source: { ...one.source, serviceAccounts } })),
);

export function globalPolicy(policyName: string, rule: object, spec: object = {}): AnyResource {
  return {
    apiVersion: API_VERSION,
    kind: 'GlobalNetworkPolicy',
    metadata: { name: policyName },
    spec: { selector: "role == 'a'", types: ['Ingress'], ingress: [{ action: 'Allow', ...rule }], ...spec },
  } as unknown as AnyResource;
}

export function hostEndpoint(endpointName: string, spec: object, labels: object = {}): AnyResource {
  return {
    apiVersion: API_VERSION,
    kind: 'HostEndpoint',
    metadata: { name: endpointName, labels: { host: 'yes', ...labels } },
    spec: { node: NODE, ...spec },
  } as unknown as AnyResource;
}

const endpointName = fc.constantFrom('h', 'i', 'j', `${NODE}-auto-hep`);
const stage = fc.oneof(
  fc.constant({}),
  fc.constant({ applyOnForward: true }),
  fc.constant({ applyOnForward: true, staged: true }),
  { weight: 2, arbitrary: fc.constant({ applyOnForward: true, doNotTrack: true }) },
  { weight: 2, arbitrary: fc.constant({ applyOnForward: true, preDNAT: true, types: ['Ingress'], egress: [] }) },
);

const hostRule = fc.oneof(
  rule,
  fc.record({ action: fc.constantFrom('Allow', 'Deny'), protocol: fc.constantFrom('TCP', 'UDP') }),
);

/** Changes of host endpoints and of policies that select them. */
export const hostChange: fc.Arbitrary<Apply> = fc.oneof(
  fc
    .record({
      named: endpointName,
      place: fc.constantFrom<object>(
        { interfaceName: 'eth0' },
        { interfaceName: 'eth1' },
        { interfaceName: '*' },
        { interfaceName: 'nplunknown' },
        { expectedIPs: ['192.0.2.1'] },
      ),
      node: fc.constantFrom(NODE, NODE, 'node-2'),
      profiles: fc.constantFrom([], ['netplug-default-allow']),
      labels: fc.record({ role, 'netplug/created-by': fc.constantFrom('netplug-orch-controllers', 'me') }),
    })
    .map(
      ({ named, place, node, profiles, labels }): Apply =>
        (cluster) =>
          cluster.put(hostEndpoint(named, { ...place, node, profiles }, labels)),
    ),
  endpointName.map(
    (named): Apply =>
      (cluster) =>
        cluster.remove(hostEndpoint(named, {})),
  ),
  fc
    .record({
      policyName: fc.constantFrom('hp', 'hq', 'hr'),
      ingress: fc.array(hostRule, { maxLength: 3 }),
      egress: fc.array(hostRule, { maxLength: 3 }),
      order: fc.integer({ min: 1, max: 3 }),
      selector: fc.constantFrom("host == 'yes'", "role == 'a'"),
      own: stage,
    })
    .map(
      ({ policyName, own, ...spec }): Apply =>
        (cluster) =>
          cluster.put(globalPolicy(policyName, {}, { types: ['Ingress', 'Egress'], ...spec, ...own })),
    ),
);

export function nodeAt(nodeName: string, own: readonly string[], tunnels: readonly [string, string]): AnyResource {
  return {
    apiVersion: API_VERSION,
    kind: 'Node',
    metadata: { name: nodeName },
    spec: {
      addresses: own.map((address) => ({ address, type: 'InternalIP' })),
      ipv4VXLANTunnelAddr: tunnels[0],
      ipv6VXLANTunnelAddr: tunnels[1],
    },
  };
}

/** Nodes that come, change and go. The addresses of their tunnels are also those of other packets. */
const nodeChange: fc.Arbitrary<Apply> = fc.oneof(
  fc
    .tuple(
      fc.constantFrom('m', 'n'),
      fc.constantFrom(['192.0.2.7'], ['192.0.2.8', '2001:db8::8'], ['198.51.100.8']),
      fc.constantFrom<[string, string]>(['10.65.0.2', 'fd00:65::2'], ['203.0.113.1', 'fd00:66::9']),
    )
    .map(
      ([nodeName, own, tunnels]): Apply =>
        (cluster) =>
          cluster.put(nodeAt(nodeName, own, tunnels)),
    ),
  fc.constantFrom('m', 'n').map(
    (nodeName): Apply =>
      (cluster) =>
        cluster.remove(nodeAt(nodeName, [], ['', ''])),
  ),
);

/** Changes of policies and of what they select, without pods and host endpoints. */
export const policyChange: fc.Arbitrary<Apply> = fc.oneof(
  nodeChange,
  fc.tuple(namespace, fc.constantFrom('red', 'blue')).map(
    ([changed, team]): Apply =>
      (cluster) =>
        cluster.putNamespace(changed, { team }),
  ),
  fc
    .tuple(
      name,
      fc.array(ingressRule, { maxLength: 4 }),
      fc.array(rule, { maxLength: 3 }),
      fc.record({ order: fc.integer({ min: 1, max: 3 }), staged: fc.boolean() }),
    )
    .map(
      ([policyName, ingress, egress, more]): Apply =>
        (cluster) =>
          cluster.put(
            globalPolicy(policyName, {}, { types: ['Ingress', 'Egress'], ingress, egress, selector: 'all()', ...more }),
          ),
    ),
  name.map(
    (policyName): Apply =>
      (cluster) =>
        cluster.remove(globalPolicy(policyName, {})),
  ),
  fc.tuple(fc.constantFrom('s', 't'), fc.constantFrom(['10.66.0.0/16', 'fd00:66::/64'], ['192.0.2.7'], [])).map(
    ([setName, nets]): Apply =>
      (cluster) =>
        cluster.put({
          apiVersion: API_VERSION,
          kind: 'GlobalNetworkSet',
          metadata: { name: setName, labels: { kind: 'set' } },
          spec: { nets },
        } as unknown as AnyResource),
  ),
);

/** Guards of pods that come and go, some of pods that are not there. */
const guardChange: fc.Arbitrary<Apply> = fc
  .tuple(fc.integer({ min: 1, max: 6 }), fc.subarray([80, 81, 443, 8001, 8002]))
  .map(
    ([ordinal, guarded]): Apply =>
      (cluster) =>
        cluster.putGuard(ordinal, guarded),
  );

export const change: fc.Arbitrary<Apply> = fc.oneof(
  { weight: 2, arbitrary: guardChange },
  hostChange,
  fc.tuple(namespace, fc.integer({ min: 1, max: 6 }), role, fc.boolean()).map(
    ([inNamespace, ordinal, podRole, isLocal]): Apply =>
      (cluster) =>
        cluster.putPod(podOf({ namespace: inNamespace, ordinal, role: podRole, isLocal })),
  ),
  fc.tuple(namespace, fc.integer({ min: 1, max: 6 })).map(
    ([inNamespace, ordinal]): Apply =>
      (cluster) =>
        cluster.removePod({ namespace: inNamespace, name: `pod${String(ordinal)}` }),
  ),
  { weight: 4, arbitrary: policyChange },
);

interface PodSketch {
  readonly namespace: string;
  readonly ordinal: number;
  readonly role: string;
  readonly isLocal: boolean;
}

export function podOf({ namespace: inNamespace, ordinal, role: podRole, isLocal }: PodSketch): TestPod {
  return {
    namespace: inNamespace,
    name: `pod${String(ordinal)}`,
    addresses: [`10.65.0.${String(ordinal)}`, `fd00:65::${String(ordinal)}`],
    labels: { role: podRole },
    ports: [{ name: 'web', containerPort: 8000 + ordinal }],
    account: ordinal % 2 === 0 ? 'one' : 'two',
    // Pods of two namespaces may claim one interface.
    interfaceName: isLocal ? `npl${ordinal < 3 ? '' : inNamespace}${String(ordinal)}` : undefined,
  };
}
