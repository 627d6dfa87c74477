import { describe, expect, it } from 'vitest';
import type { AnyResource } from '../model/kinds.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { parseAddress } from '../net/address.ts';
import { formatCidr } from '../net/cidr.ts';
import { globalPolicy } from '../../test/support/policy-arbitraries.ts';
import { PolicyCluster } from '../../test/support/policy-cluster.ts';
import type { PolicyChange } from './policy-change.ts';
import { PolicyState } from './policy-state.ts';
import type { PolicyRule } from './resolved-policy.ts';

function pod(name: string, more: Partial<WorkloadEndpoint['spec']> = {}, metadata: object = {}): PolicyChange {
  return {
    kind: 'endpoint',
    key: name,
    value: {
      apiVersion: 'netplug.io/v3',
      kind: 'WorkloadEndpoint',
      metadata: { name, namespace: 'shop', labels: { app: name }, ...metadata },
      spec: {
        orchestrator: 'orch',
        node: 'n1',
        network: 'net',
        containerID: name,
        pod: name,
        endpoint: 'eth0',
        interfaceName: `npl${name}`,
        mac: '',
        ipNetworks: ['10.0.0.1/32'],
        profiles: ['kns.shop'],
        ipam: '',
        ...more,
      },
    },
  };
}

function resource(kind: AnyResource['kind'], name: string, spec: object, problem?: string): PolicyChange {
  const namespace = kind === 'NetworkPolicy' || kind === 'NetworkSet' ? { namespace: 'shop' } : {};
  const metadata = { name, ...namespace };
  // Also records that no writer accepts.
  const value = { apiVersion: 'netplug.io/v3', kind, metadata, spec } as unknown as AnyResource;
  return { kind: 'resource', which: { kind, ...metadata }, value, ...(problem === undefined ? {} : { problem }) };
}

const peers = (selector: string): PolicyChange =>
  resource('NetworkPolicy', 'a', {
    selector: "app == 'x'",
    types: ['Ingress'],
    ingress: [{ action: 'Allow', source: { selector } }],
  });

function membersOfPeers(state: PolicyState): readonly string[] {
  const selector = state.tiers[0]?.policies[0]?.rules.ingress?.[0]?.source.selector;
  return selector === undefined ? ['no selector'] : state.membersOf(selector).map(formatCidr);
}

function ownersOf(state: PolicyState, address = '10.0.0.1'): readonly string[] {
  return state.endpointsAt(parseAddress(address)).map(({ shown }) => shown);
}

describe('an address that two pods have', () => {
  const LATER = { creationTimestamp: '2026-01-01T00:00:01Z' };
  const reported = { areAddressesReported: true } as const;
  const old = pod('old', reported, { creationTimestamp: '2026-01-01T00:00:00Z' });
  const young = pod('young', reported, LATER);

  it.each([
    ['older', [old, young]],
    ['younger', [young, old]],
  ])('is that of the younger pod when the %s one is known first', (_, changes) => {
    const state = new PolicyState();
    state.apply([peers("app == 'old'")]);
    for (const change of changes) state.apply([change]);
    expect(ownersOf(state)).toEqual(['shop/young']);
    expect(membersOfPeers(state)).toEqual([]);
    expect(state.endpoints.get('pod shop/old')?.addresses).toEqual([]);
  });

  it('falls back to the older pod when the younger one has gone, and no pod inherits a label', () => {
    const state = new PolicyState();
    state.apply([peers("app == 'old'"), old, young]);
    const touched = state.apply([{ kind: 'endpoint', key: 'young' }]);
    expect(ownersOf(state)).toEqual(['shop/old']);
    expect(membersOfPeers(state)).toEqual(['10.0.0.1/32']);
    expect([...touched.endpoints].toSorted()).toEqual(['pod shop/old', 'pod shop/young']);
  });

  it.each([
    ['first', (certain: PolicyChange, other: PolicyChange) => [certain, other]],
    ['last', (certain: PolicyChange, other: PolicyChange) => [other, certain]],
  ])('is that of the pod whose kubelet reports it, known %s, although a younger one has a record', (_, inOrder) => {
    const networks = { ipNetworks: ['10.0.0.1/32', '10.0.0.2/32'] } as const;
    const state = new PolicyState();
    state.apply([peers("app == 'old'")]);
    for (const change of inOrder(old, pod('recorded', networks, LATER))) state.apply([change]);
    expect([ownersOf(state), membersOfPeers(state)]).toEqual([['shop/old'], ['10.0.0.1/32']]);
    expect(ownersOf(state, '10.0.0.2')).toEqual(['shop/recorded']);
    state.apply([pod('recorded', reported, LATER)]);
    expect([ownersOf(state), membersOfPeers(state)]).toEqual([['shop/recorded'], []]);
  });

  it('is that of neither while no kubelet reports it, and of one when a kubelet does', () => {
    const state = new PolicyState();
    state.apply([peers("app in { 'a', 'b' }"), pod('a'), pod('b', {}, LATER)]);
    expect([ownersOf(state), membersOfPeers(state)]).toEqual([[], []]);
    state.apply([pod('a', reported)]);
    expect([ownersOf(state), membersOfPeers(state)]).toEqual([['shop/a'], ['10.0.0.1/32']]);
  });

  it('is that of the pod with a record when the other one is to end, and has given it back', () => {
    const state = new PolicyState();
    state.apply([
      peers("app == 'ending'"),
      pod('ending', { containerID: '', isTerminating: true, ...reported }, LATER),
    ]);
    expect(membersOfPeers(state)).toEqual(['10.0.0.1/32']);
    state.apply([pod('next')]);
    expect([ownersOf(state), membersOfPeers(state)]).toEqual([['shop/next'], []]);
  });

  it('is that of the pod that holds it in a block, although a younger one has asked for it without an address manager', () => {
    const state = new PolicyState();
    state.apply([peers("app == 'thief'"), pod('thief', { ipam: 'none', ...reported }, LATER), old]);
    expect([ownersOf(state), membersOfPeers(state)]).toEqual([['shop/old'], []]);
    state.apply([pod('old', { ipam: 'netplug-ipam' }), { kind: 'endpoint', key: 'thief' }]);
    expect(ownersOf(state)).toEqual(['shop/old']);
  });

  it('is that of one pod when both are of the same age, whatever the order', () => {
    const first = new PolicyState();
    first.apply([pod('a', reported), pod('b', reported)]);
    const second = new PolicyState();
    second.apply([pod('b', reported)]);
    second.apply([pod('a', reported)]);
    expect([ownersOf(first), ownersOf(second)]).toEqual([['shop/b'], ['shop/b']]);
  });

  it.each([
    ['Deny', { action: 'Deny', source: { selector: "app == 'old'" } }],
    ['exception from an Allow', { action: 'Allow', source: { notSelector: "app == 'old'" } }],
  ])('stays in the %s of the one that loses it', (_, rule) => {
    const state = new PolicyState();
    state.apply([resource('NetworkPolicy', 'a', { selector: "app == 'x'", types: ['Ingress'], ingress: [rule] }), old]);
    const { selector, notSelector } = state.tiers[0]?.policies[0]?.rules.ingress?.[0]?.source ?? {};
    const peer = notSelector ?? selector;
    if (peer === undefined) throw new Error('the rule has no selector');
    const members = (): readonly string[] => state.membersOf(peer).map(formatCidr);
    expect(members()).toEqual(['10.0.0.1/32']);
    state.apply([young]);
    expect(ownersOf(state)).toEqual(['shop/young']);
    expect(members()).toEqual(['10.0.0.1/32']);
    state.apply([{ kind: 'endpoint', key: 'old' }]);
    expect(members()).toEqual([]);
  });

  it('leaves the Deny of a pod that has given it back before its end, and is denied to no later pod for that', () => {
    const deny = { action: 'Deny', source: { selector: "app == 'ending'" } };
    const state = new PolicyState();
    const ending = pod('ending', { containerID: '', isTerminating: true, ...reported }, LATER);
    state.apply([
      resource('NetworkPolicy', 'a', { selector: "app == 'x'", types: ['Ingress'], ingress: [deny] }),
      ending,
    ]);
    expect(membersOfPeers(state)).toEqual(['10.0.0.1/32']);
    state.apply([pod('next')]);
    expect(membersOfPeers(state)).toEqual([]);
  });
});

describe('labels', () => {
  it('of an endpoint have the name of its namespace also when that is gone', () => {
    const state = new PolicyState();
    state.apply([pod('p')]);
    const named = { 'pcns.kubernetes.io/metadata.name': 'shop', 'pcns.netplug/name': 'shop' };
    expect(state.endpoints.get('pod shop/p')?.labels).toMatchObject(named);
  });

  it('do not replace those that netplug sets or namespaces have when users write them', () => {
    const state = new PolicyState();
    const labels = { 'pcns.team': 'admins', 'netplug/namespace': 'kube-system', 'netplug/serviceaccount': 'root' };
    state.apply([resource('Profile', 'kns.shop', { labelsToApply: { 'pcns.team': 'a' } }), pod('p', {}, { labels })]);
    expect(state.endpoints.get('pod shop/p')?.labels).toEqual({
      'pcns.team': 'a',
      'netplug/namespace': 'shop',
      'netplug/orchestrator': 'orch',
    });
  });

  it('on the endpoint come before those of its profiles, and of these the first wins', () => {
    const state = new PolicyState();
    state.apply([
      resource('Profile', 'one', { labelsToApply: { app: 'one', a: 'one', b: 'one' } }),
      resource('Profile', 'two', { labelsToApply: { b: 'two', c: 'two' } }),
      pod('p', { profiles: ['one', 'two'] }),
    ]);
    expect(state.endpoints.get('pod shop/p')?.labels).toMatchObject({ app: 'p', a: 'one', b: 'one', c: 'two' });
  });
});

describe('a record that cannot be used', () => {
  const others = [pod('p'), resource('NetworkPolicy', 'good', { order: 1, selector: 'all()', types: ['Ingress'] })];
  const state = (bad: PolicyChange): PolicyState => {
    const made = new PolicyState();
    made.apply([...others, bad]);
    return made;
  };
  const applied = (view: PolicyState): readonly string[] => {
    const [endpoint] = view.endpoints.values();
    const [tier] = view.tiers;
    if (endpoint === undefined || tier === undefined) throw new Error('nothing there');
    return view
      .policiesOf(endpoint, tier, 'ingress')
      .map(({ id, rules }) => `${id}: ${(rules.ingress ?? []).map(({ action }) => action).join()}`);
  };
  const rules = [{ action: 'Allow' }, { action: 'Deny' }, { action: 'Pass' }];
  const bad = 'NetworkPolicy shop/bad';

  it('isolates the namespace of a policy with an unreadable selector, and keeps its denials alone', () => {
    const view = state(
      resource('NetworkPolicy', 'bad', { order: 2, selector: 'app ==', types: ['Ingress'], ingress: rules }),
    );
    expect(applied(view)).toEqual(['NetworkPolicy shop/good: ', `${bad}: Deny`]);
    expect(view.problems.get(bad)?.[0]).toContain('isolates all pods of the namespace: "app ==" is no selector');
  });

  it('isolates the namespace of a policy that cannot be read at all', () => {
    const which = { kind: 'NetworkPolicy', namespace: 'shop', name: 'bad' } as const;
    const view = state({ kind: 'resource', which, problem: 'spec: missing' });
    expect(applied(view)).toEqual(['NetworkPolicy shop/good: ', `${bad}: `]);
  });

  it('is a global policy with an unreadable selector, which applies to nothing', () => {
    const view = state(
      resource('GlobalNetworkPolicy', 'bad', { selector: 'app ==', types: ['Ingress'], ingress: rules }),
    );
    expect(applied(view)).toEqual(['NetworkPolicy shop/good: ']);
    expect(view.problems.get('GlobalNetworkPolicy bad')?.[0]).toContain('applies to nothing');
  });

  it.each([
    ['Allow', ''],
    ['Pass', ''],
    ['Log', ''],
    ['Deny', 'Deny'],
  ])('has a rule with action %s and an unreadable part replaced by "%s"', (action, expected) => {
    const ingress = [{ action, source: { selector: 'app ==' } }];
    const view = state(resource('NetworkPolicy', 'bad', { order: 2, selector: 'all()', types: ['Ingress'], ingress }));
    expect(applied(view)[1]).toBe(`${bad}: ${expected}`);
    expect(view.problems.get(bad)).toEqual([expect.stringContaining('ingress[0].source.selector')]);
  });

  it('fails alone and closed when it cannot be applied', () => {
    const which = { kind: 'NetworkPolicy', namespace: 'shop', name: 'bad' } as const;
    const broken = resource('NetworkPolicy', 'bad', { order: 2, types: undefined, selector: 'all()' });
    const view = new PolicyState();
    view.apply([broken, pod('broken', { ipNetworks: undefined } as object), ...others]);
    expect(applied(view)).toEqual(['NetworkPolicy shop/good: ', `${bad}: `]);
    expect(view.problems.get(bad)?.[0]).toContain('isolates all pods of the namespace: it cannot be applied');
    expect([...view.endpoints.keys()]).toEqual(['pod shop/p']);
    expect(view.problems.get('broken')?.[0]).toContain('cannot be applied');
    view.apply([
      { kind: 'resource', which },
      { kind: 'endpoint', key: 'broken' },
    ]);
    expect(view.problems.size).toBe(0);
    expect(applied(view)).toEqual(['NetworkPolicy shop/good: ']);
  });

  it('closes the endpoint alone when it cannot be settled', () => {
    const view = new PolicyState();
    // No text can be made of it.
    const broken = pod('broken', { interfaceName: 1n } as object);
    view.apply([broken, ...others]);
    expect([...view.endpoints.keys()]).toEqual(['pod shop/p']);
    expect(view.problems.get('pod shop/broken')?.[0]).toContain('cannot be used');
    expect(ownersOf(view)).toEqual(['shop/p']);
    view.apply([pod('broken', { ipNetworks: ['10.0.0.2/32'] })]);
    expect(ownersOf(view, '10.0.0.2')).toEqual(['shop/broken']);
    expect(view.problems.size).toBe(0);
  });

  it('is no longer a problem when it is corrected or deleted', () => {
    const torn = (selector: string): PolicyChange => resource('NetworkPolicy', 'bad', { selector, types: ['Ingress'] });
    const view = state(torn('app =='));
    view.apply([torn('all()')]);
    expect(view.problems.size).toBe(0);
    view.apply([torn('app ==')]);
    view.apply([{ kind: 'resource', which: { kind: 'NetworkPolicy', namespace: 'shop', name: 'bad' } }]);
    expect(view.problems.size).toBe(0);
  });
});

describe('a rule that is too large for the kernel', () => {
  const names = (count: number): string[] => Array.from({ length: count }, (_, index) => `p${String(index)}`);
  const oddPorts = Array.from({ length: 32_768 }, (_, index) => 2 * index + 1);
  const stateWith = (...ingress: readonly object[]): PolicyState => {
    const view = new PolicyState();
    const rules = ingress.map((rule) => ({ action: 'Allow', protocol: 'TCP', ...rule }));
    view.apply([resource('NetworkPolicy', 'a', { selector: 'all()', types: ['Ingress'], ingress: rules })]);
    return view;
  };
  const remaining = (view: PolicyState): readonly PolicyRule[] => view.tiers[0]?.policies[0]?.rules.ingress ?? [];
  const problemsOf = (view: PolicyState): readonly string[] => view.problems.get('NetworkPolicy shop/a') ?? [];

  it.each([
    ['names of ports at both ends', { source: { ports: names(3000) }, destination: { ports: names(3000) } }],
    ['names of ports', { source: { selector: 'all()' }, destination: { ports: names(257) } }],
    ['excluded names of ports', { destination: { notPorts: names(17) } }],
    ['ports for each name', { source: { ports: oddPorts }, destination: { ports: names(10) } }],
  ])('allows nothing and is reported: %s', (_, rule) => {
    const view = stateWith(rule, { destination: { ports: [80] } });
    expect(remaining(view).map(({ destination }) => destination.ports?.ranges)).toEqual([[{ first: 80, last: 80 }]]);
    expect(problemsOf(view)).toEqual([expect.stringContaining('ingress[0] has no effect')]);
  });

  it.each([
    ['names of ports at both ends', { source: { ports: names(22) }, destination: { ports: names(23) } }],
    ['names of ports', { source: { selector: 'all()' }, destination: { ports: names(256) } }],
    ['excluded names of ports', { destination: { notPorts: names(16) } }],
    ['ports', { source: { nets: ['10.0.0.0/8'] }, destination: { ports: oddPorts } }],
  ])('stays as written at the limit: %s', (_, rule) => {
    const view = stateWith(rule);
    expect(remaining(view)).toHaveLength(1);
    expect(problemsOf(view)).toEqual([]);
  });

  it('denies any port and network when it is a denial', () => {
    const lists = { ports: names(3000), nets: ['10.0.0.0/8'] };
    const view = stateWith({ action: 'Deny', source: { ...lists, selector: 'all()' }, destination: lists });
    expect(remaining(view)).toMatchObject([{ action: 'Deny', protocol: 6, destination: {} }]);
    expect(Object.keys(remaining(view)[0]?.source ?? {})).toEqual(['selector']);
    expect(problemsOf(view)).toEqual([expect.stringContaining('ingress[0] denies any port and network: ')]);
  });

  it('leaves out later rules when all rules of a direction together are too large', () => {
    const rule = { source: { nets: ['10.0.0.0/8'] }, destination: { ports: oddPorts } };
    const view = stateWith(rule, rule, { destination: { ports: [80] } });
    expect(remaining(view).map(({ index }) => index)).toEqual([0, 2]);
    expect(problemsOf(view)).toEqual([expect.stringContaining('ingress[1] has no effect')]);
  });
});

it('names a Kubernetes rule once when many of its peers are left out', () => {
  const cluster = new PolicyCluster();
  const from = Array.from({ length: 100 }, (_, index) => ({
    podSelector: { matchLabels: { app: `a${String(index)}` } },
  }));
  const ports = Array.from({ length: 300 }, (_, index) => ({ port: 2 * index + 1 }));
  cluster.putPolicy({ namespace: 'shop', name: 'a', spec: { podSelector: {}, ingress: [{}, { from, ports }] } });
  expect([...cluster.state.problems.values()]).toEqual([
    [expect.stringContaining('ingress[1] has no effect, or only a')],
  ]);
});

describe('a rule with http', () => {
  const rulesOf = (spec: object): readonly unknown[] => {
    const view = new PolicyState();
    view.apply([resource('NetworkPolicy', 'a', { selector: 'all()', types: ['Ingress', 'Egress'], ...spec })]);
    const { ingress = [], egress = [] } = view.tiers[0]?.policies[0]?.rules ?? {};
    return [...ingress, ...egress];
  };
  const http = { methods: ['GET'], paths: [{ prefix: '/a' }] };

  it('is about TCP, and asks for its methods and paths', () => {
    expect(rulesOf({ ingress: [{ action: 'Allow', http }] })).toEqual([
      expect.objectContaining({ action: 'Allow', protocol: 6, http }),
    ]);
  });

  it.each([
    ['in an egress rule', { egress: [{ action: 'Allow', http }] }],
    ['of another action', { ingress: [{ action: 'Pass', http }] }],
    ['of another protocol', { ingress: [{ action: 'Allow', protocol: 'UDP', http }] }],
  ])('allows nothing %s, if such a rule was stored', (_, spec) => {
    expect(rulesOf(spec)).toEqual([]);
  });

  it('denies whatever its other parts match, if a Deny was stored with it', () => {
    const [rule] = rulesOf({ ingress: [{ action: 'Deny', protocol: 'TCP', http }] });
    expect(rule).toEqual({ action: 'Deny', protocol: 6, source: {}, destination: {}, index: 0 });
  });

  it('allows nothing in a policy that sees packets before they are translated', () => {
    const cluster = new PolicyCluster();
    cluster.put(globalPolicy('early', { http }, { applyOnForward: true, preDNAT: true }));
    expect(cluster.state.tiers[0]?.policies[0]?.rules.ingress).toEqual([]);
    expect([...cluster.state.problems.values()].flat()).toEqual([expect.stringContaining('ingress[0].http')]);
  });
});

describe('a change of one pod', () => {
  it('reports the members that it adds to selectors and removes from them', () => {
    const state = new PolicyState();
    state.apply([peers("app == 'p'")]);
    const text = state.tiers[0]?.policies[0]?.rules.ingress?.[0]?.source.selector?.text ?? '';
    const added = state.apply([pod('p')]).selectors.get(text);
    const removed = state.apply([pod('p', {}, { labels: { app: 'q' } })]).selectors.get(text);
    expect([[...(added?.added.keys() ?? [])], added?.removed.size]).toEqual([['10.0.0.1'], 0]);
    expect([removed?.added.size, [...(removed?.removed.keys() ?? [])]]).toEqual([0, ['10.0.0.1']]);
  });

  it('touches only selectors that match its labels', () => {
    const state = new PolicyState();
    const count = 1000;
    state.apply(
      Array.from({ length: count }, (_, index) => {
        const selector = `app == 'app-${String(index)}'`;
        const ingress = [{ action: 'Allow', source: { selector } }];
        return resource('NetworkPolicy', `p${String(index)}`, { selector, types: ['Ingress'], ingress });
      }),
    );
    const touched = state.apply([pod('p', {}, { labels: { app: 'app-7' } })]);
    expect([touched.selectors.size, touched.policies.size, [...touched.endpoints]]).toEqual([1, 0, ['pod shop/p']]);
  });
});

describe('the number of a rule', () => {
  const notes = { metadata: { annotations: { 'netplug/rule': '7' } } };
  const spec = { selector: 'all()', types: ['Ingress'], ingress: [{ action: 'Allow', ...notes }] };
  const numberIn = (change: PolicyChange): number | undefined => {
    const state = new PolicyState();
    state.apply([change]);
    return state.tiers[0]?.policies[0]?.rules.ingress?.[0]?.index;
  };

  it('is its place in the policy, whatever a user notes on the rule', () => {
    expect(numberIn(resource('NetworkPolicy', 'a', spec))).toBe(0);
    expect(numberIn(resource('GlobalNetworkPolicy', 'a', spec))).toBe(0);
    const state = new PolicyState();
    state.apply([resource('Profile', 'a', { ingress: spec.ingress })]);
    expect(state.profile('a')?.rules.ingress[0]?.index).toBe(0);
  });

  it('is that of the rule of the Kubernetes policy for which it stands', () => {
    expect(numberIn(resource('NetworkPolicy', 'knp.default.a', spec))).toBe(7);
  });

  it('is its place in the stored policy when rules before it cannot be read', () => {
    expect(numberIn(resource('NetworkPolicy', 'a', spec, 'ingress[0] cannot be read'))).toBe(7);
  });
});
