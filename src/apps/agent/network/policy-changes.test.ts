import { afterEach, expect, it } from 'vitest';
import { Channel } from '../../../base/channel.ts';
import type { FollowedRecord, FollowEvent } from '../../../datastore/follow.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { POLICY_TABLE } from '../../../policy/ruleset/policy-ruleset.ts';
import { endpointOf, makeHost, POLICY, stopHosts } from '../../../../test/support/enforcement-host.ts';

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
  const make = host.makeCompiler;
  host.makeCompiler = () => {
    const compiler = make();
    return {
      useHost: (links) => compiler.useHost(links),
      compile: (view, touched) => {
        compiled.push(held());
        return compiler.compile(view, touched);
      },
    };
  };
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
