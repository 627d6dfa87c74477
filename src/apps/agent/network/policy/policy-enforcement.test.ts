import { afterEach, describe, expect, it } from 'vitest';
import { NetplugError } from '../../../../base/errors.ts';
import type { PolicyFilter } from '../../../../dataplane/policy-filter.ts';
import { fromNamespace } from '../../../../model/from-kubernetes/profiles.ts';
import { closedInterfaces } from '../../../../policy/ruleset/base-chains.ts';
import { POLICY_TABLE } from '../../../../policy/ruleset/policy-ruleset.ts';
import type { PolicyRule } from '../../../../policy/resolved-policy.ts';
import { idOfOrigin } from '../../../../policy/ruleset/rule-ids.ts';
import type { HostLinks } from '../../../../policy/ruleset/policy-ruleset.ts';
import { UnusableRules } from '../../../../policy/unusable-rules.ts';
import type { AnyResource } from '../../../../model/kinds.ts';
import type { WorkloadEndpoint } from '../../../../model/workload-endpoint.ts';
import type { PolicyEnforcement } from './policy-enforcement.ts';
import {
  endpointOf,
  makeHost,
  never,
  POLICY,
  stopHosts,
  type TestHost,
} from '../../../../../test/support/enforcement-host.ts';
import { PATIENCE_MS } from '../../../../../test/support/until.ts';

afterEach(stopHosts);

it('closes only the pod that switches enforcement on while the policies of other pods are unknown', async () => {
  const host = makeHost();
  host.isReadable = false;
  const policy = host.start('on demand');
  await host.clock.pass(0);
  expect(host.tables.size).toBe(0);
  const isolating = policy.isolate(endpointOf('new', 'npl1'));
  await host.clock.pass(0);
  void isolating;
  expect(await policy.isolate(endpointOf('newer', 'npl2'))).toMatchObject({ state: 'closed' });
  expect(['npl1', 'npl2', 'npl3'].map((name) => host.verdict(name))).toEqual(['drop', 'drop', 'accept']);
  expect(host.isRemembered).toBe(false);
});

it('closes the pods of an earlier process together with a new pod, and remembers enforcement with the first policies', async () => {
  const host = makeHost();
  host.isReadable = false;
  const first = host.start('on demand');
  void first.isolate(endpointOf('old', 'npl1'));
  await host.clock.pass(0);
  host.stop.abort();
  const next = makeHost();
  for (const [name, table] of host.tables) next.tables.set(name, table);
  next.isReadable = false;
  const policy = next.start('on demand');
  await next.clock.pass(0);
  expect(policy.failures()).toHaveLength(1);
  await policy.isolate(endpointOf('new', 'npl2'));
  expect(closedInterfaces(await next.filter.ruleIds(POLICY_TABLE, never)).toSorted()).toEqual(['npl1', 'npl2']);
  next.isReadable = true;
  await next.clock.pass(30_000);
  await next.clock.pass(30_000);
  expect(policy.failures()).toEqual([]);
  expect(next.isRemembered).toBe(true);
  expect(next.verdict('npl3')).toBe('drop');
});

it('closes all pods at a start on a host that remembers enforcement', async () => {
  const host = makeHost();
  host.isReadable = false;
  host.start('enforce');
  await host.clock.pass(0);
  expect(host.verdict('npl3')).toBe('drop');
});

it('writes the first policies with the settings of the agent, and with built-in ones when those cannot be read', async () => {
  const host = makeHost();
  const { promise, resolve } = Promise.withResolvers<void>();
  host.settingsRead = promise;
  const policy = host.start('enforce');
  const isolating = policy.isolate(endpointOf('pod', 'npl1'));
  await host.clock.pass(4000);
  expect([host.examinations, host.isRemembered]).toEqual([0, false]);
  policy.configure({ ...POLICY, defaultEndpointToHostAction: 'Drop' });
  resolve();
  expect(await isolating).toEqual({ state: 'in force' });
  const late = makeHost();
  late.settingsRead = Promise.withResolvers<void>().promise;
  const isolatingLate = late.start('enforce').isolate(endpointOf('pod', 'npl1'));
  await late.clock.pass(0);
  await late.clock.pass(4000);
  expect(late.isRemembered).toBe(false);
  await late.clock.pass(1000);
  expect(await isolatingLate).toEqual({ state: 'in force' });
});

it('takes a large snapshot in slices, and writes nothing of it before the end', async () => {
  const host = makeHost();
  const spec = { node: 'b', interfaceName: 'eth0' };
  for (let index = 0; index < 1000; index += 1) {
    const metadata = { name: `h${String(index)}` };
    await host.store.createResource({ apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata, spec }, never);
  }
  const policy = host.start('enforce');
  const known = (): number => policy.state.endpoints.size;
  const seen = new Set<number>();
  const atWrites: number[] = [];
  host.remember = () => atWrites.push(known());
  const look = (): void => {
    seen.add(known());
    if (atWrites.length === 0) setImmediate(look);
  };
  look();
  expect(await policy.isolate(endpointOf('pod', 'npl1'))).toEqual({ state: 'in force' });
  expect([...seen].filter((count) => count > 1 && count < 1000).length).toBeGreaterThan(1);
  expect(atWrites[0]).toBeGreaterThanOrEqual(1000);
});

it('compares the kernel with the table every 10 s although pods keep coming', async () => {
  const host = makeHost();
  const policy = host.start('enforce');
  await policy.isolate(endpointOf('pod', 'npl1'));
  const before = host.rereads;
  for (let second = 0; second < 12; second += 1) {
    await host.clock.pass(1000);
    await policy.isolate(endpointOf(`pod-${String(second)}`, `npl1${String(second)}`));
  }
  expect(host.rereads).toBe(before + 1);
});

it('examines flows when something has changed, and not with each comparison', async () => {
  const host = makeHost();
  const policy = host.start('enforce');
  await policy.isolate(endpointOf('pod', 'npl1'));
  await host.clock.pass(100);
  const { examinations, rereads } = host;
  await host.clock.pass(11_000);
  expect([host.examinations, host.rereads]).toEqual([examinations, rereads + 1]);
  host.tables.clear();
  await host.clock.pass(11_000);
  expect(host.examinations).toBe(examinations + 1);
});

it('tells after a comparison whether another program had changed the table, and not what it wrote itself', async () => {
  const host = makeHost();
  const policy = host.start('enforce');
  await policy.isolate(endpointOf('pod', 'npl1'));
  expect(await policy.compare()).toBe(false);
  host.tables.clear();
  expect([await policy.compare(), host.tables.has(POLICY_TABLE)]).toEqual([true, true]);
  const isolated = policy.isolate(endpointOf('other', 'npl2'));
  expect(await policy.compare()).toBe(false);
  await isolated;
});

it('removes what an earlier process enforced, and forgets it once the table is removed', async () => {
  const host = makeHost();
  await host.start('enforce').isolate(endpointOf('pod', 'npl1'));
  host.stop.abort();
  const next = makeHost();
  for (const [name, table] of host.tables) next.tables.set(name, table);
  next.isRemembered = true;
  const open = next.policyFilter;
  next.policyFilter = () => {
    throw new NetplugError('kernel/failed', 'no netlink socket');
  };
  next.start('remove');
  await next.clock.pass(0);
  expect([next.tables.size, next.isRemembered]).toEqual([1, true]);
  next.policyFilter = open;
  await next.clock.pass(30_000);
  expect([next.tables.size, next.isRemembered]).toEqual([0, false]);
});

it('enforces policies although the node cannot remember it, and remembers it when it can', async () => {
  const host = makeHost();
  host.remember = () => {
    throw new Error('read-only file system');
  };
  const policy = host.start('on demand');
  expect(await policy.isolate(endpointOf('pod', 'npl1'))).toEqual({ state: 'in force' });
  expect(host.isRemembered).toBe(false);
  host.remember = () => undefined;
  await host.clock.pass(11_000);
  expect(host.isRemembered).toBe(true);
});

it('reports that policies are not enforced while the kernel cannot filter, and goes on when it can', async () => {
  const host = makeHost();
  const open = host.policyFilter;
  host.policyFilter = (): Pick<PolicyFilter, 'apply' | 'extend' | 'missingLogs' | 'ruleIds' | 'remove'> => {
    throw new NetplugError('kernel/failed', 'no netlink socket');
  };
  const policy = host.start('on demand');
  expect(await policy.isolate(endpointOf('pod', 'npl1'))).toMatchObject({ state: 'not enforced' });
  expect(policy.failures()).toContain('policy: no netlink socket');
  host.policyFilter = open;
  await host.clock.pass(10_000);
  await host.clock.pass(10_000);
  expect(host.verdict('npl1')).toBe('drop');
  expect(policy.failures()).toEqual([]);
});

it('ends the flows of a released pod also while the datastore has not been read', async () => {
  const host = makeHost();
  host.isReadable = false;
  const policy = host.start('enforce');
  const pod = endpointOf('pod', 'npl1');
  void policy.isolate(pod);
  await host.clock.pass(0);
  await policy.release(pod);
  expect(host.endedPods).toEqual([pod.metadata.name]);
});

it.each([
  ['host-local', 'u2', ['web']],
  // It stays recorded, with its policies.
  ['netplug-ipam', 'u2', []],
  // A sandbox that was made anew: its DEL follows.
  ['host-local', 'u1', []],
])('cuts off a pod of %s whose record the next pod of its name (UID %s) replaces', async (ipam, podUID, ended) => {
  const host = makeHost();
  const policy = host.start('enforce');
  const of = (interfaceName: string, more: Partial<WorkloadEndpoint['spec']>): WorkloadEndpoint => {
    const { spec, ...rest } = endpointOf('web', interfaceName);
    return { ...rest, spec: { ...spec, pod: 'web', ipam, ...more } };
  };
  await policy.isolate(of('npl1', { containerID: 'c1', podUID: 'u1' }));
  await policy.isolate(of('npl2', { containerID: 'c2', podUID, ipNetworks: ['10.0.0.2/32'] }));
  expect(host.verdict('npl1')).toBe('drop');
  expect(host.endedPods).toEqual(ended);
});

it('reports a lost policy watch as a failure until the datastore is read again', async () => {
  const host = makeHost();
  const policy = host.start('enforce');
  await policy.isolate(endpointOf('pod', 'npl1'));
  expect(policy.failures()).toEqual([]);
  host.isReadable = false;
  host.loseWatch(new NetplugError('store/unavailable', 'the API is silent'));
  await host.clock.pass(0);
  expect(policy.failures()).toEqual(['policy: the policy watch is lost: the API is silent']);
  // The pod keeps its policies, and a new pod gets the last known ones.
  expect(await policy.isolate(endpointOf('next', 'npl2'))).toEqual({ state: 'in force' });
  host.isReadable = true;
  await host.clock.pass(30_000);
  await host.clock.pass(30_000);
  expect(policy.failures()).toEqual([]);
});

describe('a policy whose rules cannot be enforced', () => {
  const odd = {
    apiVersion: 'netplug.io/v3',
    kind: 'GlobalNetworkPolicy',
    metadata: { name: 'odd' },
    spec: {
      selector: "app == 'odd'",
      types: ['Ingress', 'Egress'],
      egress: [{ action: 'Log' }, { action: 'Allow' }],
      ingress: [{ action: 'Allow' }],
    },
  } as const;
  const labelled = (name: string, interfaceName: string, app: string): WorkloadEndpoint => {
    const endpoint = endpointOf(name, interfaceName);
    return { ...endpoint, metadata: { ...endpoint.metadata, labels: { app } } };
  };
  const ID = 'GlobalNetworkPolicy odd';
  const RULE: PolicyRule = { action: 'Allow', source: {}, destination: {}, index: 1 };

  it.each([
    {
      by: 'the kernel',
      prepare: (host: TestHost) =>
        host.filter.refuseRule(
          idOfOrigin({ kind: 'policy', name: ID, direction: 'egress', index: 1, rule: RULE, isStaged: false }),
        ),
    },
    {
      by: 'the kernel as a whole',
      prepare: (host: TestHost) => host.filter.refuseOwner(`policy ${ID}`),
    },
    {
      by: 'the compiler',
      prepare: (host: TestHost) => {
        host.onCompile = (view) => {
          const rules = view.tiers[0]?.policies.find(({ id }) => id === ID)?.rules.egress ?? [];
          if (rules.length > 1) throw new UnusableRules({ kind: 'policy', name: ID }, new Error('it is odd'));
        };
      },
    },
  ])('closes what it selects when $by refuses them, and nothing else, until it changes', async ({ prepare }) => {
    const host = makeHost();
    prepare(host);
    const policy = host.start('enforce');
    const open = {
      ...odd,
      metadata: { name: 'open' },
      spec: { ...odd.spec, selector: "app == 'open'", egress: [{ action: 'Allow' }] },
    } as const;
    const created = await host.store.createResource(odd, never);
    await host.store.createResource(open, never);
    await policy.isolate(labelled('a', 'npl1', 'odd'));
    await policy.isolate(labelled('b', 'npl2', 'open'));
    await host.clock.pass(100);
    expect(['npl1', 'npl2'].map((name) => host.verdict(name))).toEqual(['drop', 'accept']);
    expect(policy.problems().join()).toContain(`${ID} denies everything: its rules cannot be enforced: `);
    expect(policy.failures()).toEqual([]);
    await host.store.updateResource({ ...created, spec: open.spec } as AnyResource, never);
    await host.clock.pass(100);
    await host.clock.pass(100);
    expect(policy.problems()).toEqual([]);
  });
});

it('leaves a node with a host endpoint open until the datastore is read, and follows its interfaces then', async () => {
  const host = makeHost();
  const at = (inInterface: string): string =>
    host.filter.judge('input', {
      source: { family: 4, value: 0x0a000001n },
      destination: { family: 4, value: 0x0a000002n },
      protocol: 17,
      ports: { source: 1000, destination: 4789 },
      state: 'new',
      inInterface,
      isToHost: true,
    });
  let facts: HostLinks = {
    interfaces: [{ name: 'eth0', addresses: ['192.0.2.1'] }],
    tunnels: [{ protocol: 17, port: 4789 }],
    servers: [],
  };
  host.readHost = async () => Promise.resolve(facts);
  const spec = { node: 'a', expectedIPs: ['192.0.2.1'] };
  await host.store.createResource(
    { apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata: { name: 'h' }, spec },
    never,
  );
  host.isReadable = false;
  host.start('enforce');
  await host.clock.pass(0);
  expect(at('eth0')).toBe('accept');
  host.isReadable = true;
  await host.clock.pass(30_000);
  await host.clock.pass(30_000);
  // The packet is of a tunnel of the node.
  expect(at('eth0')).toBe('accept');
  facts = { ...facts, tunnels: [] };
  await host.clock.pass(1000);
  expect([at('eth0'), at('eth1')]).toEqual(['drop', 'accept']);
  host.readHost = async () => Promise.reject(new Error('no netlink socket'));
  await host.clock.pass(1000);
  expect([at('eth0'), at('eth1')]).toEqual(['drop', 'accept']);
  facts = { ...facts, interfaces: [{ name: 'eth1', addresses: ['192.0.2.1'] }] };
  host.readHost = async () => Promise.resolve(facts);
  await host.clock.pass(1000);
  expect([at('eth0'), at('eth1')]).toEqual(['accept', 'drop']);
});

it('enforces host endpoints only with settings that were read, and keeps those of an earlier process until then', async () => {
  const start = async (
    tables: TestHost['tables'],
  ): Promise<{ host: TestHost; read: () => void; policy: PolicyEnforcement }> => {
    const host = makeHost();
    for (const [name, table] of tables) host.tables.set(name, table);
    const metadata = { name: 'h' };
    const spec = { node: 'a', interfaceName: 'eth0' };
    await host.store.createResource({ apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata, spec }, never);
    const { promise, resolve } = Promise.withResolvers<void>();
    host.settingsRead = promise;
    const policy = host.start('enforce');
    for (let second = 0; second < 8; second += 1) await host.clock.pass(1000);
    return { host, read: resolve, policy };
  };
  const isClosed = ({ filter }: TestHost): boolean =>
    filter.judge('input', {
      source: { family: 4, value: 0x0a000001n },
      destination: { family: 4, value: 0x0a000002n },
      protocol: 17,
      ports: { source: 1000, destination: 53 },
      state: 'new',
      inInterface: 'eth0',
      isToHost: true,
    }) === 'drop';
  const fresh = await start(new Map());
  expect([isClosed(fresh.host), fresh.host.isRemembered]).toEqual([false, true]);
  expect(fresh.policy.failures()).toEqual([expect.stringContaining('AgentConfigurations have not been read')]);
  fresh.read();
  await fresh.host.clock.pass(0);
  await fresh.host.clock.pass(100);
  expect([isClosed(fresh.host), fresh.policy.failures()]).toEqual([true, []]);
  fresh.host.stop.abort();
  const next = await start(fresh.host.tables);
  expect([isClosed(next.host), next.host.isRemembered, next.host.examinations]).toEqual([true, false, 0]);
  expect(next.policy.failures()).toContainEqual(expect.stringContaining('AgentConfigurations have not been read'));
  for (const name of ['later', 'last']) {
    const resource = {
      apiVersion: 'netplug.io/v3',
      kind: 'HostEndpoint',
      metadata: { name },
      spec: { node: 'b' },
    } as const;
    await next.host.store.createResource(resource, never);
  }
  await expect.poll(() => next.policy.state.endpoints.size, { timeout: PATIENCE_MS }).toBe(3);
  next.read();
  await next.host.clock.pass(0);
  await next.host.clock.pass(100);
  expect([isClosed(next.host), next.host.isRemembered, next.policy.failures()]).toEqual([true, true, []]);
});

it('opens the way to other servers of the datastore before it can read, and keeps the rest closed', async () => {
  const at = ({ filter }: TestHost, port: number): string =>
    filter.judge('output', {
      source: { family: 4, value: 0x0a000001n },
      destination: { family: 4, value: 0x0a000002n },
      protocol: 6,
      ports: { source: 1000, destination: port },
      state: 'new',
      outInterface: 'eth0',
      isToHost: false,
    });
  const first = makeHost();
  const metadata = { name: 'h' };
  const spec = { node: 'a', interfaceName: '*' };
  await first.store.createResource({ apiVersion: 'netplug.io/v3', kind: 'HostEndpoint', metadata, spec }, never);
  first.start('enforce');
  for (let second = 0; second < 3; second += 1) await first.clock.pass(1000);
  expect(at(first, 8443)).toBe('drop');
  first.stop.abort();
  const next = makeHost();
  for (const [name, table] of first.tables) next.tables.set(name, table);
  next.isReadable = false;
  const policy = next.start('enforce');
  await next.clock.pass(0);
  expect(at(next, 8443)).toBe('drop');
  next.servers = [{ address: { family: 4, value: 0x0a000002n }, protocol: 6, port: 8443 }];
  policy.noteHostChange();
  await next.clock.pass(0);
  expect([8443, 8444].map((port) => at(next, port))).toEqual(['accept', 'drop']);
});

it.each([
  { start: 'enforce', name: 'nfnetlink_log', kinds: ['report'] },
  { start: 'on demand', name: 'nf_log_syslog', kinds: ['log', 'report'] },
] as const)(
  'enforces without logs on a kernel that lacks $name, started with "$start"',
  async ({ start, name, kinds }) => {
    const host = makeHost();
    for (const kind of kinds) host.filter.lackLog(kind);
    const policy = host.start(start);
    const spec = {
      selector: 'all()',
      types: ['Egress'],
      egress: [{ action: 'Log' }, { action: 'Deny', protocol: 'UDP' }],
    };
    const metadata = { name: 'p' };
    const kind = 'GlobalNetworkPolicy';
    await host.store.createResource({ apiVersion: 'netplug.io/v3', kind, metadata, spec } as AnyResource, never);
    expect(await policy.isolate(endpointOf('pod', 'npl1'))).toEqual({ state: 'in force' });
    expect([host.verdict('npl1'), policy.failures()]).toEqual(['drop', []]);
    expect(policy.problems()).toHaveLength(kinds.length);
    expect(policy.problems().join()).toContain(name);
    const counts = await host.filter.counts(POLICY_TABLE, never);
    expect(counts.some(({ packets }) => packets > 0n)).toBe(true);
    policy.configure(POLICY);
    expect(await policy.isolate(endpointOf('next', 'npl2'))).toEqual({ state: 'in force' });
  },
);

it('closes interfaces of another plugin until the pod of the route is known, and ends the connections of the pod before', async () => {
  const host = makeHost();
  const podLinks = { prefixes: ['npl', 'eni'], others: [] };
  host.compilation = { ...host.compilation, podLinks };
  const open = fromNamespace({ metadata: { name: 'shop' } });
  await host.store.createResource(open, never);
  const policy = host.start('enforce');
  policy.useLinks(new Map([['10.0.0.1', 'eni1']]));
  await host.clock.pass(0);
  expect(['eni1', 'eni2', 'npl3', 'eth1'].map((name) => host.verdict(name))).toEqual([
    'drop',
    'drop',
    'drop',
    'accept',
  ]);
  const { spec, ...rest } = endpointOf('web', '');
  const endpoint = { ...rest, spec: { ...spec, pod: 'web', podUID: '1', profiles: [open.metadata.name] } };
  await host.store.commit([{ kind: 'put-endpoint', endpoint }], never);
  await host.clock.pass(30);
  await host.clock.pass(30);
  expect(['eni1', 'eni2'].map((name) => host.verdict(name))).toEqual(['accept', 'drop']);
  expect(host.endedPods).toEqual([]);
  policy.useLinks(new Map([['10.0.0.1', 'eni2']]));
  await host.clock.pass(30);
  expect(['eni1', 'eni2'].map((name) => host.verdict(name))).toEqual(['drop', 'accept']);
  policy.useLinks(new Map());
  await host.clock.pass(30);
  expect(host.verdict('eni2')).toBe('drop');
  expect(host.endedPods).toEqual(['web', 'web']);
});
