import { describe, expect, it } from 'vitest';
import { globalPolicy, hostEndpoint, nodeAt, podOf } from '../../test/support/policy-arbitraries.ts';
import { NODE, PolicyCluster } from '../../test/support/policy-cluster.ts';
import type { AnyResource } from '../model/kinds.ts';
import type { Node } from '../model/node.ts';
import { parseAddress } from '../net/address.ts';
import { hostCidr } from '../net/cidr.ts';
import { evaluateEnd } from './evaluate.ts';
import { NodeBudget } from './node-budget.ts';
import { NodeIndex } from './node-index.ts';
import type { PolicyChange } from './policy-change.ts';
import { PolicyState } from './policy-state.ts';
import { RulesetCompiler } from './ruleset/ruleset-compiler.ts';

const NODE_B = nodeAt('b', ['192.0.2.12', '2001:db8::12'], ['10.65.9.1', 'fd00:65:9::1']);
const OUTSIDE = { 4: '198.51.100.1', 6: '2001:db8:ffff::1' } as const;
const TUNNEL = { 4: '10.65.9.1', 6: 'fd00:65:9::1' } as const;
const DESTINATION = { 4: '10.65.0.1', 6: 'fd00:65::1' } as const;

/** Returns a cluster with node b, and a pod to which only `source` may send. */
function clusterWith(source: object, ...others: readonly AnyResource[]): PolicyCluster {
  const cluster = new PolicyCluster();
  cluster.putNamespace('x');
  cluster.putPod(podOf({ namespace: 'x', ordinal: 1, role: 'a', isLocal: true }));
  for (const other of others) cluster.put(other);
  cluster.put(NODE_B);
  cluster.put(globalPolicy('guard', { source }));
  return cluster;
}

function verdictOf({ state }: PolicyCluster, from: string): string {
  const endpoint = [...state.endpoints.values()].find(({ kind }) => kind === 'workload');
  if (endpoint === undefined) throw new Error('the pod is there');
  const source = parseAddress(from);
  const destination = parseAddress(DESTINATION[source.family]);
  const packet = { source, destination, protocol: 6, sourcePort: 40_000, destinationPort: 80 };
  return evaluateEnd(state, { endpoint, direction: 'ingress', packet }).verdict;
}

/** Nodes from 10.1.0.0 on. */
function manyNodes(count: number): readonly Node[] {
  return Array.from({ length: count }, (_, at) => {
    const host = `${String(at >> 8)}.${String(at & 255)}`;
    return nodeAt(`n${String(at)}`, [`10.1.${host}`], [`10.65.${host}`, `fd00:65::${String(at)}`]) as Node;
  });
}

const SET = {
  apiVersion: 'netplug.io/v3',
  kind: 'GlobalNetworkSet',
  metadata: { name: 'hosts', labels: { kind: 'set' } },
  spec: { nets: ['192.0.2.0/24', '2001:db8::/64'] },
} as AnyResource;
const HOST = hostEndpoint('b-eth0', { node: 'b', expectedIPs: ['192.0.2.12', '2001:db8::12'] });

describe('the tunnel address of a node', () => {
  it.each([
    ['a network', { nets: ['192.0.2.0/24', '2001:db8::/64'] }, []],
    ['a network set', { selector: "kind == 'set'" }, [SET]],
    ['a host endpoint', { selector: "host == 'yes'" }, [HOST]],
    ['all but other networks', { notNets: ['198.51.100.0/24', '2001:db8:ffff::/64'] }, []],
  ] as const)('stands for the node in %s, in both families, until the node is gone', (_, source, others) => {
    const cluster = clusterWith(source, ...others);
    for (const family of [4, 6] as const) {
      expect(verdictOf(cluster, TUNNEL[family])).toBe('allow');
      expect(verdictOf(cluster, OUTSIDE[family])).toBe('deny');
    }
    if ('notNets' in source) return;
    cluster.remove(NODE_B);
    for (const family of [4, 6] as const) expect(verdictOf(cluster, TUNNEL[family])).toBe('deny');
  });

  it('is excluded with the networks of its node', () => {
    const cluster = clusterWith({ notNets: ['192.0.2.12/32'] });
    expect(verdictOf(cluster, TUNNEL[4])).toBe('deny');
    expect(verdictOf(cluster, TUNNEL[6])).toBe('allow');
  });

  it('stands for the node among the clients of a service in the network of its hosts', () => {
    const cluster = clusterWith({ services: { name: 'webhooks', namespace: 'x' } });
    const addresses = [parseAddress('192.0.2.12')];
    const value = { namespace: 'x', name: 'webhooks', addresses, ports: [] };
    cluster.state.apply([{ kind: 'service', key: 's', value }]);
    expect([TUNNEL[4], TUNNEL[6]].map((from) => verdictOf(cluster, from))).toEqual(['allow', 'deny']);
    const { services } = cluster.remove(NODE_B);
    expect([...services]).toEqual(['x/webhooks']);
    expect(verdictOf(cluster, TUNNEL[4])).toBe('deny');
  });

  it('enters and leaves the sets in the kernel with the node, and changes no other chain', () => {
    const cluster = clusterWith({ nets: ['192.0.2.0/24'] });
    const compiler = new RulesetCompiler({ node: NODE, logPrefix: 'p', endpointToHostAction: 'Accept' });
    const before = compiler.compile(cluster.state).table;
    const joined = cluster.put(nodeAt('c', ['192.0.2.13'], ['10.65.9.9', 'fd00:65:9::9']));
    const after = compiler.compile(cluster.state, joined).table;
    const elements = [...after.sets].filter(([name, set]) => before.sets.get(name) !== set);
    expect(elements.map(([, set]) => [...set.elements])).toEqual([['10.65.9.1/32', '10.65.9.9/32', '192.0.2.0/24']]);
    expect([...after.chains].filter(([name, chain]) => before.chains.get(name) !== chain)).toEqual([]);
    cluster.remove(nodeAt('c', [], ['', '']));
    const bare = compiler.compile(cluster.state, cluster.remove(NODE_B)).table;
    expect([...bare.sets.values()].flatMap((set) => [...set.elements.keys()])).not.toContain('192.0.2.0/24');
  });

  it('is found in one look at a list of networks, however many nodes are in them', () => {
    const index = new NodeIndex();
    for (const node of manyNodes(100)) index.replace(node.metadata.name, node);
    let looks = 0;
    const list = Array.from({ length: 100 }, (_, at) => hostCidr(parseAddress(`10.1.0.${String(at)}`)));
    const counted = new Proxy(list, {
      get: (from, key): unknown => {
        looks += 1;
        return Reflect.get(from, key);
      },
    });
    expect(index.standInsFor(counted)).toHaveLength(100);
    expect(looks).toBeLessThan(3 * list.length);
  });

  it('costs one look at the network sets when many nodes change at once', () => {
    const changes = manyNodes(500).map((value): PolicyChange => ({
      kind: 'resource',
      which: { kind: 'Node', name: value.metadata.name },
      value,
    }));
    const nets = Array.from({ length: 10_000 }, (_, at) => `172.16.${String(at >> 8)}.${String(at & 255)}/32`);
    const spent = (others: readonly AnyResource[]): number => {
      const state = new PolicyState();
      for (const value of others)
        state.apply([{ kind: 'resource', which: { kind: 'GlobalNetworkSet', name: value.metadata.name }, value }]);
      const start = process.threadCpuUsage();
      state.apply(changes);
      return process.threadCpuUsage(start).user;
    };
    spent([]);
    expect(spent([{ ...SET, spec: { nets } } as AnyResource])).toBeLessThan(20 * spent([]));
  });

  it('counts in the budget of the node, so that networks of many nodes cannot fill its kernel', () => {
    const cluster = clusterWith({ nets: ['192.0.2.0/24'] });
    const budget = new NodeBudget(NODE);
    budget.take(cluster.state, undefined);
    const { entries = 0 } = cluster.state.claimOf('GlobalNetworkPolicy guard') ?? {};
    const room = entries + 64 + 10;
    expect(budget.decide(cluster.state, room).size).toBe(0);
    for (let at = 1; at <= 20; at += 1) {
      const tunnels = [`10.65.8.${String(at)}`, `fd00:65:8::${String(at)}`] as const;
      cluster.put(nodeAt(`n${String(at)}`, [`192.0.2.${String(20 + at)}`], [...tunnels]));
    }
    budget.take(cluster.state, undefined);
    expect([...budget.decide(cluster.state, room).keys()]).toEqual(['GlobalNetworkPolicy guard']);
  });
});
