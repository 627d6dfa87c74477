import { afterEach, expect, it } from 'vitest';
import {
  endpointOf,
  makeHost,
  never,
  POLICY,
  stopHosts,
  type TestHost,
} from '../../../../../test/support/enforcement-host.ts';
import type { AnyResource } from '../../../../model/kinds.ts';
import type { FilterTable } from '../../../../dataplane/policy-filter.ts';
import { POLICY_TABLE } from '../../../../policy/ruleset/policy-ruleset.ts';
import { RulesetCompiler } from '../../../../policy/ruleset/ruleset-compiler.ts';
import type { WorkloadEndpoint } from '../../../../model/workload-endpoint.ts';

afterEach(stopHosts);

const COUNT = 56;
/** Allows the packet of `verdict`, in a policy as large as one may be. */
const LARGE = Array.from({ length: 1000 }, (_, index) => 2 * index + 1);

function podOf(namespace: string, interfaceName: string): WorkloadEndpoint {
  const endpoint = endpointOf(namespace, interfaceName);
  return { ...endpoint, metadata: { name: namespace, namespace, labels: { app: namespace } } };
}

function policyOf(namespace: string, name: string, egress: readonly object[]): AnyResource {
  const spec = { selector: 'all()', types: ['Egress'] as const, egress };
  return { apiVersion: 'netplug.io/v3', kind: 'NetworkPolicy', metadata: { name, namespace }, spec } as AnyResource;
}

/** A node with a pod of a tenant, who has many large policies, and one of a bystander. */
async function nodeWithTenant(): Promise<TestHost> {
  const host = makeHost();
  host.settings = { ...POLICY, policyEntriesPerPolicy: 2000, policyEntriesPerNamespace: 5000 };
  const rule = { action: 'Allow', ipVersion: 4, protocol: 'UDP', destination: { ports: [...LARGE, 53] } };
  for (let index = 0; index < COUNT; index += 1)
    await host.store.createResource(policyOf('dev', `large-${String(index).padStart(2, '0')}`, [rule]), never);
  return host;
}

it('enforces the change of a bystander while a tenant has more policies than the namespace may have, and names those', async () => {
  const host = await nodeWithTenant();
  const policy = host.start('enforce');
  await policy.isolate(podOf('dev', 'npl1'));
  await policy.isolate(podOf('shop', 'npl2'));
  expect(['npl1', 'npl2'].map((name) => host.verdict(name))).toEqual(['accept', 'drop']);
  const closed = policy.problems().filter((text) => text.includes('denies everything'));
  expect(closed).toHaveLength(COUNT - 4);
  expect(closed[0]).toContain('NetworkPolicy dev/large-04 denies everything: the policies of its namespace have more');
  expect(policy.closedPolicies).toBe(COUNT - 4);
  expect(policy.failures()).toEqual([]);
  await host.store.createResource(policyOf('shop', 'open', [{ action: 'Allow' }]), never);
  for (let time = 0; time < 3; time += 1) await host.clock.pass(100);
  expect(['npl1', 'npl2'].map((name) => host.verdict(name))).toEqual(['accept', 'accept']);
});

it('takes new budgets while it runs', async () => {
  const host = await nodeWithTenant();
  const policy = host.start('enforce');
  await policy.isolate(podOf('dev', 'npl1'));
  policy.configure({ ...POLICY, policyEntriesPerPolicy: 1000 });
  await host.clock.pass(100);
  expect([policy.closedPolicies, host.verdict('npl1')]).toEqual([COUNT, 'drop']);
  policy.configure({ ...POLICY, policyEntriesPerPolicy: 2000, policyEntriesPerNode: 3000 });
  await host.clock.pass(100);
  expect([policy.closedPolicies, host.verdict('npl1')]).toEqual([COUNT - 2, 'accept']);
  policy.configure(POLICY);
  await host.clock.pass(100);
  expect([policy.closedPolicies, policy.problems()]).toEqual([0, []]);
});

it('has the table of a new start after policies came and went at the limit of the node', async () => {
  const host = makeHost();
  host.settings = { ...POLICY, policyEntriesPerNode: 1760 };
  const policy = host.start('enforce');
  await policy.isolate(podOf('dev', 'npl1'));
  const peers = (app: string): object => ({ action: 'Allow', destination: { selector: `app == '${app}'` } });
  const large = { action: 'Allow', ipVersion: 4, protocol: 'UDP', destination: { ports: LARGE.slice(0, 600) } };
  for (const [name, app] of [
    ['a', 'dev'],
    ['b', 'shop'],
    ['c', 'dev'],
    ['d', 'other'],
  ] as const) {
    await host.store.createResource(policyOf('dev', name, [large, peers(app)]), never);
    for (let time = 0; time < 3; time += 1) await host.clock.pass(100);
  }
  expect(policy.closedPolicies).toBe(2);
  await host.store.deleteResource({ kind: 'NetworkPolicy', namespace: 'dev', name: 'a' }, never);
  for (let time = 0; time < 3; time += 1) await host.clock.pass(100);
  expect(policy.closedPolicies).toBe(1);
  const { table } = new RulesetCompiler(host.compilation).compile(policy.state);
  const written = host.tables.get(POLICY_TABLE);
  expect([...(written?.chains.keys() ?? [])].toSorted()).toEqual([...table.chains.keys()].toSorted());
  const elementsOf = (sets: FilterTable['sets'] | undefined): unknown =>
    [...(sets ?? [])].map(([name, { elements }]) => [name, [...elements.keys()].toSorted()]).toSorted();
  expect(elementsOf(written?.sets)).toEqual(elementsOf(table.sets));
});
