import { afterEach, expect, it } from 'vitest';
import { endpointOf, makeHost, never, stopHosts, type TestHost } from '../../../../../test/support/enforcement-host.ts';
import { Channel } from '../../../../base/channel.ts';
import { NetplugError } from '../../../../base/errors.ts';
import type { FollowedRecord, FollowEvent } from '../../../../datastore/follow.ts';
import type { AnyResource } from '../../../../model/kinds.ts';
import type { WorkloadEndpoint } from '../../../../model/workload-endpoint.ts';
import { POLICY_TABLE } from '../../../../policy/ruleset/policy-ruleset.ts';
import type { PolicyEnforcement } from './policy-enforcement.ts';

afterEach(stopHosts);

const NETS = 2000;

function setOf(index: number, size = NETS): AnyResource {
  const nets = Array.from({ length: size }, (_, at) => `10.${String(index)}.${String(at >> 8)}.${String(at & 255)}/32`);
  const metadata = { name: `big-${String(index)}`, labels: { set: 'big' } };
  return { apiVersion: 'netplug.io/v3', kind: 'GlobalNetworkSet', metadata, spec: { nets } };
}

function podOf(namespace: string, index: number): WorkloadEndpoint {
  const { spec, ...rest } = endpointOf(namespace, `npl${String(index)}`);
  return {
    ...rest,
    metadata: { name: namespace, namespace },
    spec: { ...spec, ipNetworks: [`10.0.0.${String(index)}/32`] },
  };
}

function policyOf(namespace: string, ingress: readonly object[]): AnyResource {
  const metadata = { name: 'p', namespace };
  const spec = { selector: 'all()', types: ['Ingress'] as const, ingress };
  return { apiVersion: 'netplug.io/v3', kind: 'NetworkPolicy', metadata, spec } as AnyResource;
}

const DENIES_SETS = policyOf('shop', [
  { action: 'Deny', source: { selector: "set == 'big'", namespaceSelector: 'global()' } },
  { action: 'Allow' },
]);

function recordOf(value: AnyResource, version = '1'): FollowedRecord {
  const { name, namespace } = value.metadata;
  const which = { kind: value.kind, name, ...(namespace === undefined ? {} : { namespace }) };
  return { kind: 'resource', query: 0, key: `${value.kind} ${name}`, version, which, value };
}

function elementsIn(host: TestHost): number {
  const sets = [...(host.tables.get(POLICY_TABLE)?.sets ?? [])].filter(([name]) => name.startsWith('addresses-'));
  return sets.reduce((sum, [, { elements }]) => sum + [...elements.keys()].length, 0);
}

/** A node that enforces, whose writes wait for `go` when `isHeld`. */
async function heldNode(): Promise<{
  readonly host: TestHost;
  readonly policy: PolicyEnforcement;
  readonly hold: () => { readonly begun: Promise<void>; readonly go: () => void };
}> {
  const host = makeHost();
  const open = host.policyFilter;
  let held: { readonly begin: () => void; readonly gone: Promise<void> } | undefined;
  host.policyFilter = () => ({
    ...open(),
    apply: async (table, options) => {
      const waiting = held;
      held = undefined;
      waiting?.begin();
      await waiting?.gone;
      return open().apply(table, options);
    },
  });
  const policy = host.start('enforce');
  await policy.isolate(podOf('shop', 1));
  await policy.isolate(podOf('other', 2));
  const hold = (): { readonly begun: Promise<void>; readonly go: () => void } => {
    const [begun, gone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    held = { begin: begun.resolve, gone: gone.promise };
    return { begun: begun.promise, go: gone.resolve };
  };
  return { host, policy, hold };
}

/** Lets a change be read, and its write be requested. */
async function takes(host: TestHost): Promise<void> {
  for (let time = 0; time < 4; time += 1) await host.clock.pass(20);
}

/** Lets time pass until the condition holds. */
async function passUntil(host: TestHost, isTrue: () => boolean): Promise<void> {
  for (let time = 0; time < 100 && !isTrue(); time += 1) await host.clock.pass(100);
  expect(isTrue()).toBe(true);
}

it('says how long the oldest change has waited, what is the largest, and nothing more when it is in force', async () => {
  const { host, policy, hold } = await heldNode();
  await host.store.createResource(DENIES_SETS, never);
  await passUntil(host, () => isInForce(host, 'shop'));
  expect([policy.lagMs, policy.late()]).toEqual([0, []]);
  const { begun, go } = hold();
  await host.store.createResource(setOf(1), never);
  await takes(host);
  await begun;
  await host.clock.pass(4000);
  await host.store.createResource(policyOf('other', [{ action: 'Allow' }]), never);
  await takes(host);
  expect(policy.lagMs).toBeGreaterThan(4000);
  expect(policy.late()).toEqual([]);
  await host.clock.pass(6000);
  expect(policy.late()).toEqual([
    'policies in the kernel are 10 s behind the datastore: changes of 2 objects wait, the largest of GlobalNetworkSet big-1 with 2000 entries',
  ]);
  go();
  await passUntil(host, () => policy.lagMs === 0);
  expect([policy.late(), elementsIn(host), isInForce(host, 'other')]).toEqual([[], NETS, true]);
});

it('counts a change as waiting while writes fail, and leaves the reason to what fails', async () => {
  const { host, policy } = await heldNode();
  const open = host.policyFilter;
  host.policyFilter = () => ({
    ...open(),
    apply: async () => Promise.reject(new NetplugError('kernel/failed', 'Cannot change the table: busy')),
  });
  await host.store.createResource(policyOf('other', [{ action: 'Allow' }]), never);
  for (let second = 0; second < 8; second += 1) await host.clock.pass(1000);
  expect(policy.lagMs).toBeGreaterThanOrEqual(7000);
  expect([policy.late(), policy.failures()]).toEqual([[], ['policy: Cannot change the table: busy']]);
  host.policyFilter = open;
  await passUntil(host, () => policy.lagMs === 0);
  expect(isInForce(host, 'other')).toBe(true);
});

it('does not let a change of another namespace wait for network sets that come after it', async () => {
  const { host, hold } = await heldNode();
  await host.store.createResource(DENIES_SETS, never);
  await passUntil(host, () => isInForce(host, 'shop'));
  const first = hold();
  await host.store.createResource(setOf(1), never);
  await takes(host);
  await first.begun;
  await host.store.createResource(policyOf('other', [{ action: 'Allow' }]), never);
  await takes(host);
  const second = hold();
  first.go();
  await second.begun;
  await host.store.createResource(setOf(2), never);
  await takes(host);
  const third = hold();
  second.go();
  await third.begun;
  expect([isInForce(host, 'other'), elementsIn(host)]).toEqual([true, NETS]);
  third.go();
  await passUntil(host, () => elementsIn(host) === 2 * NETS);
});

it('applies large network sets of one change with other work between them', async () => {
  const host = makeHost();
  const events = new Channel<FollowEvent>();
  host.follow = () => events;
  const policy = host.start('enforce');
  events.push({ kind: 'snapshot', version: '1', records: [recordOf(DENIES_SETS)] });
  await policy.isolate(podOf('shop', 1));
  const known = new Set<number>();
  const peer = policy.state.tiers[0]?.policies[0]?.rules.ingress?.[0]?.source.selector;
  const look = (): void => {
    if (peer !== undefined) known.add(policy.state.membersOf(peer).length);
    if (elementsIn(host) === 0) setImmediate(look);
  };
  look();
  events.push({ kind: 'changes', version: '2', records: [1, 2, 3, 4].map((index) => recordOf(setOf(index))) });
  await passUntil(host, () => elementsIn(host) > 0);
  expect(elementsIn(host)).toBe(4 * NETS);
  expect([...known]).toEqual([0, NETS, 2 * NETS, 3 * NETS, 4 * NETS]);
});

function isInForce(host: TestHost, namespace: string): boolean {
  const owners = host.tables.get(POLICY_TABLE)?.owners?.values() ?? [];
  return [...owners].includes(`policy NetworkPolicy ${namespace}/p`);
}
