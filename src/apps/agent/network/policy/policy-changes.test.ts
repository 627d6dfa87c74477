import { afterEach, describe, expect, it } from 'vitest';
import { Channel } from '../../../../base/channel.ts';
import type { FollowedRecord, FollowEvent } from '../../../../datastore/follow.ts';
import type { AnyResource } from '../../../../model/kinds.ts';
import { idOfOrigin } from '../../../../policy/ruleset/rule-ids.ts';
import { POLICY_TABLE } from '../../../../policy/ruleset/policy-ruleset.ts';
import {
  endpointOf,
  makeHost,
  never,
  POLICY,
  stopHosts,
  type TestHost,
} from '../../../../../test/support/enforcement-host.ts';

afterEach(stopHosts);

it('writes and judges nothing while a part of a large change is missing', async () => {
  const host = makeHost();
  const spec = { selector: 'all()', types: ['Ingress', 'Egress'], egress: [] } as const;
  const policyOf = (name: string): AnyResource => ({
    apiVersion: 'netplug.io/v3',
    kind: 'GlobalNetworkPolicy',
    metadata: { name },
    spec,
  });
  const others = (value: string): FollowedRecord[] =>
    Array.from({ length: 1000 }, (_, index) => {
      const which = { kind: 'GlobalNetworkSet', name: `s${String(index)}` } as const;
      const metadata = { name: which.name, labels: { value } };
      const set = { apiVersion: 'netplug.io/v3', kind: which.kind, metadata, spec: { nets: [] } } as AnyResource;
      return { kind: 'resource', query: 1, key: which.name, version: value, which, value: set };
    });
  const record = (name: string): FollowedRecord => {
    const which = { kind: 'GlobalNetworkPolicy', name } as const;
    return { kind: 'resource', query: 0, key: name, version: '1', which, value: policyOf(name) };
  };
  const events = new Channel<FollowEvent>();
  host.follow = () => events;
  let whole: () => Promise<void> = async () => Promise.resolve();
  host.onFlows = (isWhole) => (whole = isWhole);
  const policy = host.start('enforce');
  const held = (): string[] => (policy.state.tiers[0]?.policies ?? []).map(({ id }) => id);
  events.push({ kind: 'snapshot', version: '1', records: [record('old'), ...others('1')] });
  await policy.isolate(endpointOf('pod', 'npl1'));
  const written: string[][] = [];
  const judged: string[][] = [];
  const open = host.policyFilter;
  host.policyFilter = () => ({
    ...open(),
    apply: async (table, options) => {
      written.push(held());
      return open().apply(table, options);
    },
  });
  const compiled: string[][] = [];
  host.onCompile = () => void compiled.push(held());
  policy.configure(POLICY);
  await policy.isolate(endpointOf('pod', 'npl1'));
  events.push({ kind: 'snapshot', version: '2', records: [...others('2'), record('new')] });
  const isPartial = (ids: readonly string[]): boolean => ids.length === 0;
  while (!isPartial(held())) await new Promise((resolve) => setImmediate(resolve));
  const judging = whole().then(() => judged.push(held()));
  expect(await policy.isolate(endpointOf('next', 'npl2'))).toEqual({ state: 'in force' });
  await judging;
  expect(held()).toEqual(['GlobalNetworkPolicy new']);
  expect([...compiled, ...written, ...judged].filter(isPartial)).toEqual([]);
  expect([compiled.length > 1, written.length > 1, judged.length]).toEqual([true, true, 1]);
});

it('leaves no table when a call closes the pods again while enforcement is switched off', async () => {
  const host = makeHost();
  await host.start('enforce').isolate(endpointOf('pod', 'npl1'));
  const table = host.tables.get(POLICY_TABLE);
  host.stop.abort();
  const next = makeHost();
  next.isRemembered = true;
  next.forget = () => void (table && next.tables.set(POLICY_TABLE, table));
  next.start('remove');
  await next.clock.pass(0);
  expect([next.tables.size, next.isRemembered]).toEqual([0, false]);
});

describe('a policy that the kernel refuses', () => {
  const NAME = 'odd';
  const policyOf = (name: string, spec: object): AnyResource => ({
    apiVersion: 'netplug.io/v3',
    kind: 'GlobalNetworkPolicy',
    metadata: { name },
    spec: { selector: 'all()', types: ['Ingress', 'Egress'], ingress: [], egress: [{ action: 'Allow' }], ...spec },
  });
  const refuse = (host: TestHost, isStaged: boolean): void => {
    const rule = { action: 'Allow', source: {}, destination: {}, index: 1 } as const;
    const id = `GlobalNetworkPolicy ${NAME}`;
    host.filter.refuseRule(idOfOrigin({ kind: 'policy', name: id, direction: 'egress', index: 1, rule, isStaged }));
  };
  const refused = { egress: [{ action: 'Log' }, { action: 'Allow' }] };

  it('is not closed when it is repaired before the kernel has answered', async () => {
    const host = makeHost();
    refuse(host, false);
    const policy = host.start('enforce');
    const created = await host.store.createResource(policyOf(NAME, refused), never);
    const repaired = { ...created, spec: { ...created.spec, egress: [{ action: 'Allow' }] } } as AnyResource;
    let isRepaired = false;
    const open = host.policyFilter;
    const egressRules = (): number => policy.state.tiers[0]?.policies[0]?.rules.egress?.length ?? 0;
    host.policyFilter = () => ({
      ...open(),
      apply: async (table, options) => {
        try {
          return await open().apply(table, options);
        } catch (cause) {
          if (!isRepaired) await host.store.updateResource(repaired, never);
          isRepaired = true;
          while (egressRules() !== 1) await new Promise((resolve) => setImmediate(resolve));
          throw cause;
        }
      },
    });
    void policy.isolate(endpointOf('pod', 'npl1'));
    for (let tries = 0; tries < 20; tries += 1) await host.clock.pass(1000);
    expect([isRepaired, host.verdict('npl1'), policy.problems()]).toEqual([true, 'accept', []]);
  });

  it('only counts when it is staged', async () => {
    const host = makeHost();
    refuse(host, true);
    const policy = host.start('enforce');
    await host.store.createResource(policyOf(NAME, { ...refused, staged: true }), never);
    await host.store.createResource(policyOf('open', { order: 9 }), never);
    await policy.isolate(endpointOf('pod', 'npl1'));
    await host.clock.pass(100);
    expect(host.verdict('npl1')).toBe('accept');
    expect(policy.problems().join()).toContain('is staged and counts everything as denied');
  });
});
