import { describe, expect, it } from 'vitest';
import { slicesOf } from '../base/slices.ts';
import type { AnyResource } from '../model/kinds.ts';
import { resourceIdOf } from '../model/resource-id.ts';
import { parseAddress } from '../net/address.ts';
import { NODE, PolicyCluster } from '../../test/support/policy-cluster.ts';
import { NodeBudget } from './node-budget.ts';
import type { PolicyState } from './policy-state.ts';
import { RulesetCompiler } from './ruleset/ruleset-compiler.ts';

const LIMITS = { ofPolicy: 2000, ofNamespace: 5000 };

function policyOf(name: string, ports: number, more: object = {}, namespace = 'dev'): AnyResource {
  const destination = { ports: Array.from({ length: ports }, (_, index) => 2 * index + 1) };
  return {
    apiVersion: 'netplug.io/v3',
    kind: namespace === '' ? 'GlobalNetworkPolicy' : 'NetworkPolicy',
    metadata: { name, ...(namespace === '' ? {} : { namespace }), creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      selector: 'all()',
      types: ['Ingress'],
      ingress: [{ action: 'Allow', ipVersion: 4, protocol: 'TCP', destination }],
      ...more,
    },
  };
}

function aged(policy: AnyResource, creationTimestamp: string): AnyResource {
  return { ...policy, metadata: { ...policy.metadata, creationTimestamp } };
}

/** Returns the actions of the rules of each policy, by id. */
function actionsIn(state: PolicyState): Readonly<Record<string, readonly string[]>> {
  const policies = state.tiers[0]?.policies ?? [];
  return Object.fromEntries(
    policies.map(({ id, rules }) => [
      id,
      [...(rules.ingress ?? []), ...(rules.egress ?? [])].map(({ action }) => action),
    ]),
  );
}

function clusterWith(...policies: readonly AnyResource[]): PolicyCluster {
  const cluster = new PolicyCluster();
  cluster.state.setLimits(LIMITS);
  for (const policy of policies) cluster.put(policy);
  return cluster;
}

describe('a policy beyond its budget', () => {
  it('denies everything to what it applies to, in its directions, and is named', () => {
    const { state } = clusterWith(policyOf('large', 2500), policyOf('small', 10));
    expect(actionsIn(state)).toEqual({ 'NetworkPolicy dev/large': ['Deny'], 'NetworkPolicy dev/small': ['Allow'] });
    expect(state.problems.get('NetworkPolicy dev/large')?.[0]).toContain('denies everything: it has 2501 entries');
    expect([...state.refused.keys()]).toEqual(['NetworkPolicy dev/large']);
  });

  it('is enforced when it has become smaller, or its budget larger', () => {
    const cluster = clusterWith(policyOf('large', 2500));
    cluster.put(policyOf('large', 1500));
    expect(actionsIn(cluster.state)).toEqual({ 'NetworkPolicy dev/large': ['Allow'] });
    cluster.put(policyOf('large', 2500));
    cluster.state.setLimits({ ...LIMITS, ofPolicy: 3000 });
    expect(actionsIn(cluster.state)).toEqual({ 'NetworkPolicy dev/large': ['Allow'] });
    expect([cluster.state.refused.size, cluster.state.problems.size]).toEqual([0, 0]);
  });

  it('counts rules alone, too, and those of both directions', () => {
    const rules = Array.from({ length: 1200 }, () => ({ action: 'Allow' }));
    const { state } = clusterWith(
      policyOf('rules', 0, { types: ['Ingress', 'Egress'], ingress: rules, egress: rules }),
    );
    expect([...state.refused.keys()]).toEqual(['NetworkPolicy dev/rules']);
  });

  it('counts the values of long selectors, of what it applies to and of its peers', () => {
    const set = `app in {${Array.from({ length: 1100 }, (_, index) => `'v${String(index)}'`).join(', ')}}`;
    const peers = [{ action: 'Allow', source: { selector: `!(${set})` } }];
    const { state } = clusterWith(
      policyOf('one', 1, { selector: set }),
      policyOf('two', 1, { selector: set, ingress: peers }),
    );
    expect([...state.refused.keys()]).toEqual(['NetworkPolicy dev/two']);
  });

  it('is its own when it is global, whatever namespaces have', () => {
    const { state } = clusterWith(
      policyOf('large', 2500, {}, ''),
      ...[1, 2, 3, 4].map((index) => policyOf(`g${String(index)}`, 1900, {}, '')),
    );
    expect([...state.refused.keys()]).toEqual(['GlobalNetworkPolicy large']);
  });
});

describe('the policies of a namespace beyond its budget', () => {
  const four = ['a', 'b', 'c', 'd'].map((name, index) =>
    aged(policyOf(name, 1500), `2026-01-0${String(9 - index)}T00:00:00Z`),
  );

  it('are its youngest, in whatever order they came', () => {
    for (const policies of [four, four.toReversed()]) {
      const { state } = clusterWith(...policies, policyOf('other', 1500, {}, 'shop'));
      expect([...state.refused.keys()]).toEqual(['NetworkPolicy dev/a']);
    }
  });

  it('are enforced when others are gone', () => {
    const cluster = clusterWith(...four);
    cluster.remove(policyOf('d', 0));
    expect(cluster.state.refused.size).toBe(0);
    expect(actionsIn(cluster.state)).toMatchObject({ 'NetworkPolicy dev/a': ['Allow'] });
  });
});

it('are decided once for many changes: 8000 policies of one namespace take seconds, not minutes', () => {
  const { state } = clusterWith();
  const all = Array.from({ length: 8000 }, (_, index) => policyOf(`p${String(index)}`, 1));
  for (const slice of slicesOf(all, 200))
    state.apply(slice.map((value) => ({ kind: 'resource', which: resourceIdOf(value), value })));
  expect(state.refused.size).toBe(8000 - Math.floor(LIMITS.ofNamespace / 66));
}, 15_000);

describe('the policies of a node beyond its budget', () => {
  function nodeWith(...policies: readonly AnyResource[]): {
    cluster: PolicyCluster;
    withheld: (limit: number) => string[];
  } {
    const cluster = clusterWith(...policies);
    const budget = new NodeBudget(NODE);
    for (const [index, namespace] of ['dev', 'shop', 'far'].entries()) {
      cluster.putNamespace(namespace);
      const interfaceName = namespace === 'far' ? undefined : `npl${namespace}`;
      cluster.putPod({ namespace, name: 'pod', addresses: [`10.0.0.${String(index + 1)}`], interfaceName });
    }
    const withheld = (limit: number): string[] => {
      budget.take(cluster.state, undefined);
      cluster.state.withhold(budget.decide(cluster.state, limit));
      return [...cluster.state.refused.keys()].toSorted();
    };
    return { cluster, withheld };
  }

  it('are the youngest of the namespace that takes most, and only those that apply there', () => {
    const { withheld } = nodeWith(
      aged(policyOf('old', 1500), '2025-01-01T00:00:00Z'),
      policyOf('young', 1400),
      policyOf('shop', 1000, {}, 'shop'),
      policyOf('far', 1900, {}, 'far'),
    );
    expect(withheld(4110)).toEqual([]);
    expect(withheld(3200)).toEqual(['NetworkPolicy dev/young']);
    expect(withheld(1200)).toEqual(['NetworkPolicy dev/old', 'NetworkPolicy dev/young']);
    expect(withheld(4110)).toEqual([]);
  });

  it('count the members of their selectors, once for all that have the same, also while they are closed', () => {
    const peers = { ingress: [{ action: 'Allow', source: { selector: "app == 'web'", namespaceSelector: 'all()' } }] };
    const { cluster, withheld } = nodeWith(
      policyOf('a', 0, peers),
      policyOf('b', 0, peers),
      policyOf('s', 10, {}, 'shop'),
    );
    expect(withheld(500)).toEqual([]);
    for (let index = 0; index < 60; index += 1) {
      const addresses = [`10.1.0.${String(index)}`, `fd00::${String(index)}`];
      cluster.putPod({
        namespace: 'far',
        name: `web-${String(index)}`,
        addresses,
        interfaceName: undefined,
        labels: { app: 'web' },
      });
    }
    expect(withheld(600)).toEqual([]);
    expect(withheld(380)).toEqual(['NetworkPolicy dev/a', 'NetworkPolicy dev/b']);
    expect(withheld(380)).toEqual(['NetworkPolicy dev/a', 'NetworkPolicy dev/b']);
    expect(withheld(600)).toEqual([]);
  });

  it('count the named ports and the endpoints of services that their rules look up, those of other namespaces included', () => {
    const named = { ingress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: ['http'] } }] };
    const services = {
      types: ['Egress'],
      egress: [{ action: 'Allow', destination: { services: { name: 'db', namespace: 'far' } } }],
    };
    const { cluster, withheld } = nodeWith(policyOf('a', 0, named), policyOf('s', 0, services, 'shop'));
    expect(withheld(500)).toEqual([]);
    const ports = Array.from({ length: 200 }, (_, index) => ({ name: 'http', containerPort: index + 1 }));
    for (let index = 0; index < 75; index += 1)
      cluster.putPod({
        namespace: 'far',
        name: `web-${String(index)}`,
        addresses: [`10.1.0.${String(index)}`],
        interfaceName: undefined,
        ports,
      });
    expect(withheld(500)).toEqual(['NetworkPolicy dev/a']);
    expect(withheld(1500)).toEqual([]);
    const addresses = Array.from({ length: 100 }, (_, index) => parseAddress(`10.2.0.${String(index)}`));
    const value = { namespace: 'far', name: 'db', addresses, ports: ports.map((_, port) => ({ protocol: 6, port })) };
    cluster.state.apply([{ kind: 'service', key: 'far/db', value }]);
    expect(withheld(2500)).toEqual(['NetworkPolicy shop/s']);
    expect(withheld(25_000)).toEqual([]);
  });

  it('are decided again when sets have grown by many elements, and not for a few', () => {
    const named = { ingress: [{ action: 'Allow', protocol: 'TCP', destination: { ports: ['http'] } }] };
    const { cluster } = nodeWith(policyOf('a', 0, named));
    const budget = new NodeBudget(NODE);
    budget.take(cluster.state, undefined);
    const put = (count: number): string[] => {
      const ports = Array.from({ length: count }, (_, index) => ({ name: 'http', containerPort: index + 1 }));
      const addresses = Array.from({ length: 100 }, (_, index) => `10.1.0.${String(index)}`);
      const pod = { namespace: 'far', name: 'web', addresses, interfaceName: undefined, ports };
      budget.take(cluster.state, cluster.putPod(pod));
      return [...budget.decide(cluster.state, 500).keys()];
    };
    budget.decide(cluster.state, 500);
    expect(put(9)).toEqual([]);
    expect(put(11)).toEqual(['NetworkPolicy dev/a']);
  });

  it('take more when they are in the lists of many pods, and no more when these share one list', () => {
    const except = (ordinal: number): object => ({ selector: `pod != 'p${String(ordinal)}'` });
    const policies = Array.from({ length: 30 }, (_, ordinal) => policyOf(`e${String(ordinal)}`, 1, except(ordinal)));
    const { cluster, withheld } = nodeWith(...policies);
    const putPods = (labels?: Readonly<Record<string, string>>): void => {
      for (let index = 0; index < 30; index += 1)
        cluster.putPod({
          namespace: 'dev',
          name: `p${String(index)}`,
          addresses: [`10.1.0.${String(index)}`],
          interfaceName: `npl${String(index)}`,
          ...(labels === undefined ? {} : { labels }),
        });
    };
    putPods({ pod: 'same' });
    expect(withheld(4000)).toEqual([]);
    putPods();
    expect(withheld(4000)).not.toEqual([]);
    expect(withheld(9000)).toEqual([]);
  });
});

it('a list of policies ends with the first one that is beyond a budget: any number of them takes no more room', () => {
  const rulesWith = (count: number): number => {
    const cluster = clusterWith(
      ...Array.from({ length: count }, (_, index) => policyOf(`l${String(index)}`, 2500)),
      policyOf('a', 1),
      policyOf('z', 1),
    );
    cluster.putNamespace('dev');
    cluster.putPod({ namespace: 'dev', name: 'pod', addresses: ['10.0.0.1'], interfaceName: 'npl1' });
    const { table } = new RulesetCompiler({ node: NODE, logPrefix: 'p', endpointToHostAction: 'Accept' }).compile(
      cluster.state,
    );
    return [...table.chains.values()].reduce((sum, { rules }) => sum + rules.length, 0);
  };
  expect(rulesWith(50)).toBe(rulesWith(1));
});
