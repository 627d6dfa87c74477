import * as fc from 'fast-check';
import type { KubernetesObject } from '../../src/model/from-kubernetes/kubernetes-object.ts';
import { fromKubernetesPolicy } from '../../src/model/from-kubernetes/network-policy.ts';
import { fromPod } from '../../src/model/from-kubernetes/pod.ts';
import { fromNamespace, fromServiceAccount } from '../../src/model/from-kubernetes/profiles.ts';
import { resourceIdOf } from '../../src/model/resource-id.ts';
import type { PolicyChange } from '../../src/policy/policy-change.ts';

/** Small random clusters of Kubernetes objects: few labels, names and addresses, so that policies and pods meet. */
export interface KubernetesCluster {
  readonly namespaces: readonly KubernetesObject[];
  readonly accounts: readonly KubernetesObject[];
  readonly pods: readonly KubernetesObject[];
  readonly policies: readonly KubernetesObject[];
}

const NAMESPACES = ['x', 'y'];
export const PORTS = [80, 81, 83];
const PORT_NAMES = ['web', 'dns'];
export const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const;
const KEYS = ['app', 'constructor'];
const VALUES = ['a', 'b', ''];

const labels: fc.Arbitrary<Record<string, string>> = fc.dictionary(
  fc.constantFrom(...KEYS),
  fc.constantFrom(...VALUES),
  { maxKeys: 2 },
);

const expression = fc.oneof(
  fc.record({
    key: fc.constantFrom(...KEYS),
    operator: fc.constantFrom('In', 'NotIn'),
    values: fc.uniqueArray(fc.constantFrom(...VALUES), { minLength: 1, maxLength: 2 }),
  }),
  fc.record({ key: fc.constantFrom(...KEYS), operator: fc.constantFrom('Exists', 'DoesNotExist') }),
);

const labelSelector = fc.record(
  { matchLabels: labels, matchExpressions: fc.array(expression, { maxLength: 2 }) },
  { requiredKeys: [] },
);

const ipBlock = fc.oneof(
  fc.record({
    cidr: fc.constantFrom('10.0.0.0/24', '10.0.0.0/29', '0.0.0.0/0', '10.0.0.9/28'),
    except: fc.uniqueArray(fc.constantFrom('10.0.0.2/32', '10.0.0.4/30', '10.0.0.0/31'), { maxLength: 2 }),
  }),
  fc.record({ cidr: fc.constantFrom('fd00::/64', '::/0', 'fd00::2/128', '10.0.0.3/32') }),
);

const peer = fc.oneof(
  { weight: 2, arbitrary: fc.record({ podSelector: labelSelector }) },
  fc.record({ namespaceSelector: labelSelector }),
  fc.record({ podSelector: labelSelector, namespaceSelector: labelSelector }),
  { weight: 3, arbitrary: fc.record({ ipBlock }) },
  // Of a kind that no release knows.
  { weight: 1, arbitrary: fc.record({ future: fc.constant({}) }) },
);

const port = fc.oneof(
  fc.record({ protocol: fc.constantFrom(...PROTOCOLS), port: fc.constantFrom(...PORT_NAMES) }),
  fc.record(
    { protocol: fc.constantFrom(...PROTOCOLS), port: fc.constantFrom<number | string>(...PORTS, ...PORT_NAMES) },
    { requiredKeys: [] },
  ),
  fc.record({ port: fc.constant(80), endPort: fc.constantFrom(80, 81, 90) }),
  // Not allowed.
  fc.record({ port: fc.constantFrom<number | string>(83, 'web'), endPort: fc.constant(81) }),
);

const peers = fc.array(peer, { maxLength: 2 });
const ports = fc.array(port, { maxLength: 2 });
const ingress = fc.array(fc.record({ from: peers, ports }, { requiredKeys: [] }), { maxLength: 2 });
const egress = fc.array(fc.record({ to: peers, ports }, { requiredKeys: [] }), { maxLength: 2 });
const types = fc.constantFrom([], ['Ingress'], ['Egress'], ['Ingress', 'Egress']);

const policySpec = fc.record(
  { podSelector: labelSelector, policyTypes: types, ingress, egress },
  { requiredKeys: ['podSelector'] },
);

const podPorts = fc.uniqueArray(
  fc.record({
    name: fc.constantFrom(...PORT_NAMES),
    protocol: fc.constantFrom(...PROTOCOLS),
    containerPort: fc.constantFrom(...PORTS),
  }),
  { maxLength: 2, selector: ({ name }) => name },
);

const pod = fc.record({
  namespace: fc.constantFrom(...NAMESPACES),
  labels,
  ports: podPorts,
  account: fc.constantFrom('default', 'robot'),
  phase: fc.constantFrom('Running', 'Running', 'Running', 'Pending', 'Succeeded', 'Failed'),
  isTerminating: fc.boolean(),
});

/** Pods have addresses of both families, which none of them shares. */
export const kubernetesCluster: fc.Arbitrary<KubernetesCluster> = fc
  .record({
    namespaceLabels: fc.tuple(...NAMESPACES.map(() => labels)),
    accountLabels: labels,
    pods: fc.array(pod, { minLength: 2, maxLength: 6 }),
    policies: fc.array(fc.record({ namespace: fc.constantFrom(...NAMESPACES), spec: policySpec }), { maxLength: 5 }),
  })
  .map(({ namespaceLabels, accountLabels, pods, policies }) => ({
    namespaces: NAMESPACES.map((name, index) => ({ metadata: { name, labels: namespaceLabels[index] ?? {} } })),
    accounts: NAMESPACES.map((namespace) => ({ metadata: { name: 'robot', namespace, labels: accountLabels } })),
    pods: pods.map((each, index) => podObject(each, index)),
    policies: policies.map(({ namespace, spec }, index) => ({
      metadata: { name: `p${String(index)}`, namespace },
      spec,
    })),
  }));

function podObject(
  {
    namespace,
    labels: own,
    ports: named,
    account,
    phase,
    isTerminating,
  }: {
    namespace: string;
    labels: Record<string, string>;
    ports: readonly unknown[];
    account: string;
    phase: string;
    isTerminating: boolean;
  },
  index: number,
): KubernetesObject {
  const host = String(index + 1);
  return {
    metadata: {
      name: `pod-${String(index)}`,
      namespace,
      uid: `uid-${String(index)}`,
      labels: own,
      ...(isTerminating ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}),
    },
    spec: { nodeName: 'n1', serviceAccountName: account, containers: [{ name: 'main', ports: named }] },
    status: { phase, podIPs: [{ ip: `10.0.0.${host}` }, { ip: `fd00::${host}` }] },
  };
}

/** Returns the records that the agent derives from the objects. */
export function changesOf({ namespaces, accounts, pods, policies }: KubernetesCluster): PolicyChange[] {
  const resources = [
    ...namespaces.map(fromNamespace),
    ...accounts.map(fromServiceAccount),
    ...policies.flatMap((policy) => fromKubernetesPolicy(policy).value ?? []),
  ];
  return [
    ...resources.map((value) => ({ kind: 'resource', which: resourceIdOf(value), value }) as const),
    ...pods.map((pod) => ({ kind: 'endpoint', key: pod.metadata.uid ?? '', value: fromPod(pod).value }) as const),
  ];
}
