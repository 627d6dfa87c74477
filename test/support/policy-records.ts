import * as fc from 'fast-check';
import type { AnyResource, ResourceKind } from '../../src/model/kinds.ts';
import { API_VERSION } from '../../src/model/resource.ts';
import type { WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { parseAddress } from '../../src/net/address.ts';
import type { PolicyChange } from '../../src/policy/policy-change.ts';

/** Random changes of the records that policies need: few names, labels and addresses, so that they meet and collide. */
const NAMESPACES = ['x', 'y'];
const namespace = fc.constantFrom(...NAMESPACES);
const label = fc.constantFrom('app', 'constructor', 'pcns.prototype', 'netplug/namespace');
const value = fc.constantFrom('a', 'b', 'x');
const labels = fc.dictionary(label, value, { maxKeys: 3 });
const address = fc.constantFrom('10.0.0.1', '10.0.0.2', '10.0.0.3', 'fd00::1', 'fd00::2');
const net = fc.constantFrom('10.0.0.0/30', '10.0.0.2/32', '10.0.0.0/24', '0.0.0.0/0', 'fd00::/64', 'fd00::1/128');

const term = fc.oneof(
  fc.tuple(label, fc.constantFrom('==', '!='), value).map(([key, operator, text]) => `${key} ${operator} '${text}'`),
  fc.tuple(label, fc.constantFrom('in', 'not in')).map(([key, operator]) => `${key} ${operator} { 'a', 'x' }`),
  label.map((key) => `has(${key})`),
  label.map((key) => `${key} contains 'a'`),
  fc.constant('all()'),
);
export const selectorText = fc.oneof(
  { weight: 3, arbitrary: term },
  { weight: 2, arbitrary: fc.tuple(term, term).map(([a, b]) => `${a} && ${b}`) },
  { weight: 1, arbitrary: fc.tuple(term, term).map(([a, b]) => `!(${a} || ${b})`) },
  { weight: 1, arbitrary: fc.tuple(term, term).map(([a, b]) => `${a} || ${b}`) },
  { weight: 1, arbitrary: fc.constant('app == ') },
);
const namespaceSelector = fc.oneof(selectorText, fc.constant('global()'));

const entity = fc.record(
  {
    nets: fc.array(net, { minLength: 1, maxLength: 2 }),
    notNets: fc.array(net, { minLength: 1, maxLength: 1 }),
    selector: selectorText,
    notSelector: selectorText,
    namespaceSelector,
    serviceAccounts: fc.record({ names: fc.constant(['robot']), selector: selectorText }, { requiredKeys: [] }),
    ports: fc.array(fc.constantFrom<number | string>(80, '80:90', 'web'), { minLength: 1, maxLength: 2 }),
    notPorts: fc.array(fc.constantFrom<number | string>(81, 'web'), { minLength: 1, maxLength: 1 }),
  },
  { requiredKeys: [] },
);
const rule = fc.record(
  {
    action: fc.constantFrom('Allow', 'Deny', 'Pass', 'Log'),
    protocol: fc.constantFrom('TCP', 'UDP', 'ICMP'),
    source: entity,
    destination: entity,
  },
  { requiredKeys: ['action'] },
);
const rules = fc.array(rule, { maxLength: 2 });
const policySpec = fc.record(
  {
    order: fc.constantFrom(1, 2, 1000),
    selector: selectorText,
    serviceAccountSelector: selectorText,
    types: fc.constantFrom(['Ingress'], ['Egress'], ['Ingress', 'Egress']),
    ingress: rules,
    egress: rules,
  },
  { requiredKeys: ['selector', 'types'] },
);
const globalSpec = fc
  .tuple(
    policySpec,
    fc.record(
      { namespaceSelector: selectorText, applyOnForward: fc.boolean(), preDNAT: fc.boolean() },
      { requiredKeys: [] },
    ),
  )
  .map(([common, more]) => ({ ...common, ...more }));

const profileSpec = fc.record({ ingress: rules, egress: rules, labelsToApply: labels }, { requiredKeys: [] });
const setSpec = fc.record({ nets: fc.array(net, { maxLength: 3 }) });
const hostSpec = fc.record({
  node: fc.constant('n1'),
  interfaceName: fc.constantFrom('*', 'eth0'),
  expectedIPs: fc.array(address, { maxLength: 2 }),
  profiles: fc.subarray(['team-a', 'netplug-default-allow']),
});

/** Two names of each kind; undefined deletes the record, and a text is a problem with it. */
function records(
  kind: ResourceKind,
  spec: fc.Arbitrary<unknown>,
  { names, isNamespaced }: { names: readonly string[]; isNamespaced: boolean },
): fc.Arbitrary<PolicyChange> {
  return fc
    .record({ name: fc.constantFrom(...names), namespace, spec: fc.option(spec, { nil: undefined, freq: 4 }), labels })
    .chain(({ name, namespace, spec, labels }) => {
      const id = isNamespaced ? { namespace, name } : { name };
      const metadata = { ...id, labels };
      const value =
        spec === undefined ? undefined : ({ apiVersion: API_VERSION, kind, metadata, spec } as unknown as AnyResource);
      const problem = fc.option(fc.constant('it is torn'), { nil: undefined, freq: 3 });
      const which = { kind, ...id };
      return value === undefined
        ? problem.map((text): PolicyChange => ({ kind: 'resource', which, value, problem: text }))
        : fc.constant<PolicyChange>({ kind: 'resource', which, value });
    });
}

const podValue = fc
  .record({
    name: fc.constantFrom('p1', 'p2', 'p3', 'p4'),
    namespace,
    labels,
    addresses: fc.uniqueArray(address, { maxLength: 2 }),
    account: fc.option(fc.constantFrom('robot', 'default'), { nil: undefined }),
    createdAt: fc.constantFrom('2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z', undefined),
    isNamed: fc.boolean(),
    port: fc.constantFrom(80, 8080),
  })
  .map(({ name, namespace, labels, addresses, account, createdAt, isNamed, port }): WorkloadEndpoint => ({
    apiVersion: API_VERSION,
    kind: 'WorkloadEndpoint',
    metadata: { name, namespace, labels, ...(createdAt === undefined ? {} : { creationTimestamp: createdAt }) },
    spec: {
      orchestrator: 'orch',
      node: 'n1',
      network: 'net',
      containerID: name,
      pod: name,
      endpoint: 'eth0',
      interfaceName: `npl${name}`,
      mac: '',
      ipNetworks: addresses.map((text) => `${text}/${text.includes(':') ? '128' : '32'}`),
      profiles: [`kns.${namespace}`, ...(account === undefined ? [] : [`ksa.${namespace}.${account}`])],
      ...(account === undefined ? {} : { serviceAccountName: account }),
      ...(isNamed ? { ports: [{ name: 'web', protocol: 'TCP', port }] } : {}),
      ipam: 'netplug-ipam',
    },
  }));
const pod = fc.record({ pod: podValue, isGone: fc.boolean() }).map(({ pod, isGone }): PolicyChange => {
  const key = `${pod.metadata.namespace ?? ''}/${pod.metadata.name}`;
  return { kind: 'endpoint', key, value: isGone ? undefined : pod };
});

const service = fc
  .record({
    key: fc.constantFrom('s1', 's2'),
    name: fc.constantFrom('web', 'db'),
    address: address.map(parseAddress),
    hasPort: fc.boolean(),
    isGone: fc.boolean(),
  })
  .map(({ key, name, address, hasPort, isGone }): PolicyChange => {
    const ports = hasPort ? [{ protocol: 6, port: 80 }] : [];
    return { kind: 'service', key, value: isGone ? undefined : { namespace: 'x', name, addresses: [address], ports } };
  });

export const policyChange: fc.Arbitrary<PolicyChange> = fc.oneof(
  { weight: 4, arbitrary: pod },
  { weight: 2, arbitrary: records('NetworkPolicy', policySpec, { names: ['a', 'knp.default.b'], isNamespaced: true }) },
  { weight: 2, arbitrary: records('GlobalNetworkPolicy', globalSpec, { names: ['a', 'b'], isNamespaced: false }) },
  {
    weight: 2,
    arbitrary: records('Profile', profileSpec, {
      names: ['kns.x', 'kns.y', 'ksa.x.robot', 'team-a'],
      isNamespaced: false,
    }),
  },
  { weight: 1, arbitrary: records('NetworkSet', setSpec, { names: ['a', 'b'], isNamespaced: true }) },
  { weight: 1, arbitrary: records('GlobalNetworkSet', setSpec, { names: ['a', 'b'], isNamespaced: false }) },
  { weight: 1, arbitrary: records('HostEndpoint', hostSpec, { names: ['h1', 'h2'], isNamespaced: false }) },
  { weight: 1, arbitrary: service },
);

/** Identifies the record that a change is of. */
export function recordOf(change: PolicyChange): string {
  return change.kind === 'resource' ? JSON.stringify(change.which) : `${change.kind} ${change.key}`;
}
