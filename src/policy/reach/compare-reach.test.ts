import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hostEndpoint } from '../../../test/support/policy-arbitraries.ts';
import { changesOf, kubernetesCluster } from '../../../test/support/policy-clusters.ts';
import { policyChange } from '../../../test/support/policy-records.ts';
import type { AnyResource } from '../../model/kinds.ts';
import { type Address, formatAddress, parseAddress } from '../../net/address.ts';
import { type ConnectionEnd, endAt, evaluateConnection, type PolicyVerdict } from '../evaluate.ts';
import { failsafePorts } from '../open-ports.ts';
import type { PolicyChange } from '../policy-change.ts';
import { PolicyState } from '../policy-state.ts';
import type { PolicyView } from '../policy-view.ts';
import { compareReach, type ReachComparison } from './compare-reach.ts';
import type { NamedAddress, Peer } from './peer-classes.ts';

const NODE: NamedAddress = { kind: 'node', name: 'n1', address: parseAddress('192.0.2.1') };
/** The same, under one of the host endpoints of the records as if it were of another node than every pod. */
const HOST: NamedAddress = {
  ...NODE,
  hostEnd: (view) => {
    const [endpoint] = view.hostEndpoints.values();
    const open = failsafePorts({
      failsafeInboundHostPorts: [{ protocol: 'TCP', port: 81, net: '10.0.0.0/8' }],
      failsafeOutboundHostPorts: [{ protocol: 'UDP', port: 443 }],
    });
    return endpoint === undefined ? undefined : { endpoint: { ...endpoint, node: ELSEWHERE }, open };
  },
};
const ELSEWHERE = 'elsewhere';
const OUTSIDE = ['198.51.100.1', '10.0.0.200', '192.0.2.77', '2001:db8::1'].map(parseAddress);
const PROTOCOLS = [6, 17, 132];
const PORTS = [1, 79, 80, 81, 82, 84, 443, 8080, 65_535];

interface Question {
  readonly source: Address;
  readonly destination: Address;
  readonly protocol: number;
  readonly port: number;
}

/** Every pod, a node, and addresses outside of the cluster. */
function addressesOf(view: PolicyView): readonly Address[] {
  const pods = [...view.endpoints.values()].filter(({ kind }) => kind === 'workload');
  const first = pods.flatMap(({ addresses }) =>
    addresses.filter((address, at) => addresses.findIndex(({ family }) => family === address.family) === at),
  );
  return [...first, NODE.address, ...OUTSIDE.filter((address) => endAt(view, address).pod === undefined)];
}

function* questions(view: PolicyView, node: NamedAddress): Generator<Question> {
  const addresses = addressesOf(view);
  for (const source of addresses) {
    for (const destination of addresses) {
      const [from, to] = [endAt(view, source).pod, endAt(view, destination).pod];
      const isOfHost = [source, destination].includes(node.address) && node.hostEnd !== undefined;
      if (source.family !== destination.family || source === destination) continue;
      if (from === to && !isOfHost) continue;
      for (const protocol of PROTOCOLS) for (const port of PORTS) yield { source, destination, protocol, port };
    }
  }
}

function verdictOf(
  view: PolicyView,
  { source, destination, protocol, port }: Question,
  { address: own, hostEnd }: NamedAddress,
): PolicyVerdict {
  const packet = { source, destination, protocol, sourcePort: 40_000, destinationPort: port };
  const host = hostEnd?.(view);
  const endOf = (address: Address): ConnectionEnd =>
    host === undefined || address !== own
      ? endAt(view, address)
      : { address, host: ELSEWHERE, hostEndpoint: host.endpoint, open: host.open };
  const ends = { source: endOf(source), destination: endOf(destination) };
  return evaluateConnection(view, { ...ends, packet, endpointToHost: 'Accept' }).verdict;
}

/** Reports whether a group of ends has the address. Networks are tested elsewhere: here one of them must do. */
function hasAddress(peers: readonly Peer[], view: PolicyView, address: Address): boolean {
  const { pod } = endAt(view, address);
  return peers.some((peer) => {
    if (peer.kind === 'pod') return peer.endpoint.key === pod?.key;
    if (peer.kind === 'net') return pod === undefined && formatAddress(address) !== formatAddress(NODE.address);
    return formatAddress(peer.address) === formatAddress(address);
  });
}

function saidBy({ changes }: ReachComparison, view: PolicyView, asked: Question): ReadonlySet<PolicyVerdict> {
  const found = changes.filter(
    ({ from, to, traffic, family }) =>
      (family === undefined || family === asked.source.family) &&
      hasAddress(from, view, asked.source) &&
      hasAddress(to, view, asked.destination) &&
      traffic.some(
        ({ protocol, first, last }) => protocol === asked.protocol && first <= asked.port && asked.port <= last,
      ),
  );
  return new Set(found.map(({ verdict }) => verdict));
}

function isOutside({ source, destination }: Question): boolean {
  return OUTSIDE.includes(source) || OUTSIDE.includes(destination);
}

/** Pods are open unless policies close them. */
const OPEN = ['kns.x', 'kns.y'].map((name): PolicyChange => {
  const spec = { ingress: [{ action: 'Allow' }], egress: [{ action: 'Allow' }], labelsToApply: { 'pcns.team': 'a' } };
  const value = { apiVersion: 'netplug.io/v3', kind: 'Profile', metadata: { name }, spec } as unknown as AnyResource;
  return { kind: 'resource', which: { kind: 'Profile', name }, value };
});

const isPolicy = (change: PolicyChange): boolean => change.kind === 'resource' && change.which.kind !== 'HostEndpoint';
const records = fc.array(policyChange, { minLength: 5, maxLength: 30 });
const planned = fc.array(policyChange.filter(isPolicy), { minLength: 1, maxLength: 4 });

/** Returns what a comparison misses and invents, and counts what it finds. */
function contradictions(
  {
    present,
    changes,
    node = NODE,
  }: {
    readonly present: readonly PolicyChange[];
    readonly changes: readonly PolicyChange[];
    readonly node?: NamedAddress;
  },
  found: Record<PolicyVerdict, number>,
): { readonly missed: readonly Question[]; readonly invented: readonly Question[] } {
  const [before, after] = [new PolicyState(), new PolicyState()];
  before.apply(present);
  after.apply([...present, ...changes]);
  const comparison = compareReach({ before, after }, [node]);
  const all = [...questions(before, node)];
  const differing = new Set(all.filter((asked) => verdictOf(before, asked, node) !== verdictOf(after, asked, node)));
  for (const asked of differing) found[verdictOf(after, asked, node)] += 1;
  return {
    missed: [...differing].filter((asked) => !saidBy(comparison, before, asked).has(verdictOf(after, asked, node))),
    invented: all.filter(
      (asked) => !isOutside(asked) && !differing.has(asked) && saidBy(comparison, before, asked).size > 0,
    ),
  };
}

describe('a comparison of what policies allow', () => {
  it('says of every connection what the evaluator says, for records of netplug', () => {
    const found = { allow: 0, deny: 0 };
    fc.assert(
      fc.property(records, planned, (present, changes) => {
        expect(contradictions({ present: [...present, ...OPEN], changes }, found)).toEqual({
          missed: [],
          invented: [],
        });
      }),
      { numRuns: 40 },
    );
    expect(found.deny + found.allow).toBeGreaterThan(0);
  });

  it('says of every connection what the evaluator says, for Kubernetes policies that come and go', () => {
    const found = { allow: 0, deny: 0 };
    fc.assert(
      fc.property(kubernetesCluster, fc.nat(), (cluster, seed) => {
        const all = changesOf(cluster);
        const policies = all.filter((change) => change.kind === 'resource' && change.which.kind === 'NetworkPolicy');
        const changes = policies.filter((_, index) => (seed >> index) % 2 === 0);
        const present = all.filter((change) => !changes.includes(change) || (seed >> 8) % 2 === 0);
        const gone = changes.map((change): PolicyChange => ({ ...change, value: undefined }));
        const planned = (seed >> 8) % 2 === 0 ? gone : changes;
        expect(contradictions({ present, changes: planned }, found)).toEqual({ missed: [], invented: [] });
      }),
      { numRuns: 40 },
    );
    expect(found.deny + found.allow).toBeGreaterThan(0);
  });
});

describe('a comparison at a node with a host endpoint', () => {
  it('says of every connection what the evaluator says, also when host endpoints come and go', () => {
    const found = { allow: 0, deny: 0 };
    const host = hostEndpoint('h', { interfaceName: '*' }, { role: 'a' });
    const which = { kind: 'HostEndpoint', name: 'h' } as const;
    fc.assert(
      fc.property(records, planned, fc.constantFrom('stays', 'comes', 'goes'), (given, policies, what) => {
        const others = given.filter(isPolicy);
        const [there, gone]: readonly PolicyChange[] = [
          { kind: 'resource', which, value: host },
          { kind: 'resource', which },
        ];
        const present = [...others, ...OPEN, ...(what === 'comes' || there === undefined ? [] : [there])];
        const change = what === 'comes' ? there : gone;
        const changes = what === 'stays' || change === undefined ? policies : [...policies, change];
        expect(contradictions({ present, changes, node: HOST }, found)).toEqual({ missed: [], invented: [] });
      }),
      { numRuns: 60 },
    );
    expect(Math.min(found.deny, found.allow)).toBeGreaterThan(0);
  });
});

describe('classes of ends', () => {
  it('keep pods apart that rules of others tell apart', () => {
    const pods = ['a', 'b', 'c'].map((app, index) => ({
      metadata: { name: app, namespace: 'x', uid: app, labels: { app } },
      spec: { nodeName: 'n1', containers: [] },
      status: { phase: 'Running', podIPs: [{ ip: `10.0.0.${String(index + 1)}` }] },
    }));
    const spec = {
      podSelector: { matchLabels: { app: 'c' } },
      ingress: [{ from: [{ podSelector: { matchLabels: { app: 'a' } } }] }],
    };
    const policies = [{ metadata: { name: 'p', namespace: 'x' }, spec }];
    const cluster = { namespaces: [{ metadata: { name: 'x' } }], accounts: [], pods, policies };
    const all = changesOf(cluster);
    const isNew = (change: PolicyChange): boolean =>
      change.kind === 'resource' && change.which.kind === 'NetworkPolicy';
    const [before, after] = [new PolicyState(), new PolicyState()];
    before.apply(all.filter((change) => !isNew(change)));
    after.apply(all);
    const cut = compareReach({ before, after }, []).changes.flatMap(({ from }) =>
      from.flatMap((peer) => (peer.kind === 'pod' ? peer.endpoint.shown : [])),
    );
    expect(cut).toEqual(['x/b']);
  });
});
