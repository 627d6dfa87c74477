// Random changes of a cluster, for comparing implementations of policies.
import * as fc from 'fast-check';
import type { AnyResource } from '../../src/model/kinds.ts';
import { API_VERSION } from '../../src/model/resource.ts';
import type { PolicyCluster, TestPod } from './policy-cluster.ts';

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

export function globalPolicy(policyName: string, rule: object, spec: object = {}): AnyResource {
  return {
    apiVersion: API_VERSION,
    kind: 'GlobalNetworkPolicy',
    metadata: { name: policyName },
    spec: { selector: "role == 'a'", types: ['Ingress'], ingress: [{ action: 'Allow', ...rule }], ...spec },
  } as unknown as AnyResource;
}

export const change: fc.Arbitrary<Apply> = fc.oneof(
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
  fc.tuple(namespace, fc.constantFrom('red', 'blue')).map(
    ([changed, team]): Apply =>
      (cluster) =>
        cluster.putNamespace(changed, { team }),
  ),
  fc
    .tuple(
      name,
      fc.array(rule, { maxLength: 4 }),
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
    // Pods of two namespaces may claim one interface.
    interfaceName: isLocal ? `npl${ordinal < 3 ? '' : inNamespace}${String(ordinal)}` : undefined,
  };
}
