import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { HostChange } from '../dataplane/host-network.ts';
import type { ClusterChange } from '../cache/cluster-view.ts';
import type { RoutedBlock } from '../datastore/follow.ts';
import type { IpPool } from '../model/ip-pool.ts';
import type { NodeName } from '../model/names.ts';
import type { Node } from '../model/node.ts';
import { API_VERSION } from '../model/resource.ts';
import { FAMILIES, formatAddress, parseAddress } from '../net/address.ts';
import { addressAt, cidrAround, formatCidr, parseCidr } from '../net/cidr.ts';
import { ClusterState } from './cluster-state.ts';
import { describeRefused, DesiredNetwork } from './desired-network.ts';
import type { OwnAddress, OwnNetwork } from './plan-hops.ts';
import { LINGER_MS, SETTLE_MS } from './pool-modes.ts';
import { diffTables, tablesOf } from './diff-tables.ts';
import { peerKey, routeKey } from './same-network.ts';
import type { TunnelKind } from './tunnels.ts';

const SELF = 'a' as NodeName;
const NAMES = ['a', 'b', 'c', 'd'] as NodeName[];
const POOLS = { v4: '10.65.0.0/24', v6: 'fd00:65::/116' };

const ALL_TUNNELS: readonly TunnelKind[] = ['vxlan4', 'vxlan6', 'ipip4'];

function own(tunnels: readonly TunnelKind[] = ALL_TUNNELS): OwnNetwork {
  return {
    addresses: new Map([
      [4, { address: parseAddress('192.0.2.1'), prefixBits: 24, device: 'eth0', mtu: 1500 }],
      [6, { address: parseAddress('fd00:a::1'), prefixBits: 64, device: 'eth0', mtu: 1500 }],
    ]),
    tunnels: new Set(tunnels),
  };
}

/** Returns the network with another IPv4 address. */
function moved(part: Partial<OwnAddress>): OwnNetwork {
  const { addresses, tunnels } = own();
  const before = { address: parseAddress('192.0.2.1'), prefixBits: 24, device: 'eth0', mtu: 1500 };
  return { addresses: new Map([...addresses, [4, { ...before, ...part }]]), tunnels };
}

/** Nodes `a` and `b` are in one subnet, the others elsewhere. */
function node(
  name: NodeName,
  { isTunnelled = true, tunnelOf = name }: { readonly isTunnelled?: boolean; readonly tunnelOf?: NodeName } = {},
): Node {
  const ordinal = NAMES.indexOf(name) + 1;
  const [lan4, lan6] = ordinal <= 2 ? ['192.0.2', 'fd00:a::'] : ['198.51.100', 'fd00:b::'];
  const tunnel = {
    ipv4VXLANTunnelAddr: `10.65.0.${String((NAMES.indexOf(tunnelOf) + 1) * 64 - 1)}`,
    vxlanTunnelMACAddr: `0a:00:00:00:00:0${String(ordinal)}`,
    vxlanTunnelMACAddrV6: `0a:00:00:00:06:0${String(ordinal)}`,
  };
  return {
    apiVersion: API_VERSION,
    kind: 'Node',
    metadata: { name },
    spec: {
      bgp: { ipv4Address: `${lan4}.${String(ordinal)}/24`, ipv6Address: `${lan6}${String(ordinal)}/64` },
      ...(isTunnelled ? tunnel : {}),
    },
  };
}

type Modes = Partial<Pick<IpPool['spec'], 'vxlanMode' | 'ipipMode'>>;

function pool(family: 4 | 6, modes: Modes): IpPool {
  return {
    apiVersion: API_VERSION,
    kind: 'IPPool',
    metadata: { name: `pool${String(family)}` },
    spec: {
      cidr: family === 4 ? POOLS.v4 : POOLS.v6,
      ipipMode: 'Never',
      vxlanMode: 'Never',
      natOutgoing: false,
      disabled: false,
      disableBGPExport: false,
      blockSize: family === 4 ? 26 : 122,
      nodeSelector: 'all()',
      allowedUses: ['Workload', 'Tunnel'],
      ...modes,
    },
  };
}

function block(text: string, owner: NodeName | undefined, borrowed: RoutedBlock['borrowed'] = new Map()): RoutedBlock {
  return { cidr: parseCidr(text), node: owner, borrowed };
}

function told(change: RoutedBlock): ClusterChange {
  return { kind: 'block', cidr: change.cidr, block: change };
}

function toldOf(resource: IpPool | Node): ClusterChange {
  const { kind, metadata } = resource;
  return { kind: 'resource', which: { kind, name: metadata.name }, resource };
}

function networkOf(changes: readonly ClusterChange[], ownNetwork = own()): DesiredNetwork {
  const state = new ClusterState('claims');
  const desired = new DesiredNetwork(SELF, state);
  desired.setOwnNetwork(ownNetwork);
  for (const change of changes) desired.replan(state.apply(change, 0));
  return desired;
}

/** Returns a network whose routes lead through VXLAN. */
function throughTunnels(): { readonly state: ClusterState; readonly desired: DesiredNetwork } {
  const state = new ClusterState('claims');
  const desired = new DesiredNetwork(SELF, state);
  desired.setOwnNetwork(own());
  for (const change of [toldOf(pool(4, { vxlanMode: 'Always' })), ...NODES, ...BLOCKS]) state.apply(change, 0);
  desired.replan('all');
  return { state, desired };
}

function hops(network: DesiredNetwork): Record<string, string> {
  return Object.fromEntries(
    [...network.routes].map(([destination, { hop }]) => [
      destination,
      hop.kind === 'blackhole' ? 'blackhole' : `${formatAddress(hop.gateway)} ${hop.device}`,
    ]),
  );
}

const NODES = NAMES.map((name) => toldOf(node(name)));
const BLOCKS = [
  told(block('10.65.0.0/26', NAMES[0])),
  told(block('10.65.0.64/26', NAMES[1])),
  told(block('10.65.0.128/26', NAMES[2])),
  told(block('fd00:65::40/122', NAMES[1])),
];

describe('the desired routes of a node', () => {
  it('use the tunnel to all other nodes with vxlanMode Always, and blackhole its own blocks', () => {
    const network = networkOf([toldOf(pool(4, { vxlanMode: 'Always' })), ...NODES, ...BLOCKS]);
    expect(hops(network)).toEqual({
      '10.65.0.0/26': 'blackhole',
      '10.65.0.64/26': '10.65.0.127 vxlan.netplug',
      '10.65.0.128/26': '10.65.0.191 vxlan.netplug',
    });
    expect([...network.peers.keys()]).toContain('vxlan.netplug 10.65.0.127');
  });

  it('are direct to nodes of the same subnet with CrossSubnet, in both families', () => {
    const pools = [toldOf(pool(4, { vxlanMode: 'CrossSubnet' })), toldOf(pool(6, { vxlanMode: 'CrossSubnet' }))];
    expect(hops(networkOf([...pools, ...NODES, ...BLOCKS]))).toEqual({
      '10.65.0.0/26': 'blackhole',
      '10.65.0.64/26': '192.0.2.2 eth0',
      '10.65.0.128/26': '10.65.0.191 vxlan.netplug',
      'fd00:65::40/122': 'fd00:a::2 eth0',
    });
  });

  it('have the address of the other node as gateway with IP-in-IP [net-ipip]', () => {
    const network = networkOf([toldOf(pool(4, { ipipMode: 'Always' })), ...NODES, ...BLOCKS]);
    expect(hops(network)).toMatchObject({ '10.65.0.64/26': '192.0.2.2 ipip.netplug' });
  });

  it('are none without a tunnel mode, because BGP provides them', () => {
    expect(hops(networkOf([toldOf(pool(4, {})), ...NODES, ...BLOCKS]))).toEqual({ '10.65.0.0/26': 'blackhole' });
  });

  it('lead to the borrower of a single address, also from a block of the node itself or without an owner', () => {
    const lent = new Map([[NAMES[2] ?? SELF, [parseAddress('10.65.0.5')]]]);
    const orphan = new Map([[NAMES[1] ?? SELF, [parseAddress('10.65.0.200')]]]);
    const network = networkOf([
      toldOf(pool(4, { vxlanMode: 'Always' })),
      ...NODES,
      told(block('10.65.0.0/26', SELF, lent)),
      told(block('10.65.0.192/26', undefined, orphan)),
    ]);
    expect(hops(network)).toEqual({
      '10.65.0.0/26': 'blackhole',
      '10.65.0.5/32': '10.65.0.191 vxlan.netplug',
      '10.65.0.200/32': '10.65.0.127 vxlan.netplug',
    });
  });

  it('do not use a tunnel before the other node has published its endpoint', () => {
    const bare = NAMES.map((name) => toldOf(node(name, { isTunnelled: false })));
    expect(hops(networkOf([toldOf(pool(4, { vxlanMode: 'Always' })), ...bare, ...BLOCKS]))).toEqual({
      '10.65.0.0/26': 'blackhole',
    });
  });

  it('stay for a while when a pool changes to BGP', () => {
    const { state, desired } = throughTunnels();
    const before = hops(desired);
    expect(desired.replan(state.apply(toldOf(pool(4, {})), 1000))).toEqual([]);
    expect(hops(desired)).toEqual(before);
    expect(state.expire(1000 + SETTLE_MS)).toBe(true);
    expect(state.expire(1000 + LINGER_MS - 1)).toBe(false);
    expect(state.expire(1000 + LINGER_MS)).toBe(true);
    desired.replan('all');
    expect(hops(desired)).toEqual({ '10.65.0.0/26': 'blackhole' });
  });

  it('go on through a tunnel until all nodes have seen that it is not needed', () => {
    const { state, desired } = throughTunnels();
    expect(desired.replan(state.apply(toldOf(pool(4, { vxlanMode: 'CrossSubnet' })), 1000))).toEqual([]);
    expect(state.expire(1000 + SETTLE_MS - 1)).toBe(false);
    expect(state.expire(1000 + SETTLE_MS)).toBe(true);
    desired.replan('all');
    expect(desired.routeKinds).toMatchObject({ direct: 1 });
  });

  it('are counted by the way in which packets leave', () => {
    const cross = [toldOf(pool(4, { vxlanMode: 'CrossSubnet' })), toldOf(pool(6, { vxlanMode: 'CrossSubnet' }))];
    const network = networkOf([...cross, ...NODES, ...BLOCKS]);
    expect(network.routeKinds).toEqual({ blackhole: 1, direct: 2, tunnelled: 1 });
  });

  it('are replanned for the blocks and peers of one node only when one node changes', () => {
    const state = new ClusterState('claims');
    const desired = new DesiredNetwork(SELF, state);
    desired.setOwnNetwork(own());
    for (const change of [toldOf(pool(4, { vxlanMode: 'Always' })), ...NODES.slice(0, 3), ...BLOCKS])
      state.apply(change, 0);
    desired.replan('all');
    state.apply(told(block('10.65.0.192/26', NAMES[3])), 0);
    const changes = desired.replan(state.apply(toldOf(node(NAMES[3] ?? SELF)), 0));
    expect(changes.map(({ kind }) => kind)).toEqual(['put-peer', 'put-peer', 'put-route']);
  });

  it('keep the peer of a node that got the tunnel address of one whose record goes later', () => {
    const [, old = SELF, heir = SELF] = NAMES;
    const state = new ClusterState('claims');
    const desired = new DesiredNetwork(SELF, state);
    desired.setOwnNetwork(own(['vxlan4']));
    const changes = [pool(4, { vxlanMode: 'Always' }), node(old), node(heir, { tunnelOf: old })].map(toldOf);
    for (const change of changes) desired.replan(state.apply(change, 0));
    const gone: ClusterChange = { kind: 'resource', which: { kind: 'Node', name: old }, resource: undefined };
    const told = desired.replan(state.apply(gone, 0));
    expect(told.map(({ kind }) => kind)).toEqual(['put-peer']);
    expect([...desired.peers.values()].map(({ mac }) => mac)).toEqual(['0a:00:00:00:00:03']);
  });

  it('are none for a block over a range that the node needs, whichever of the two comes first', () => {
    const network = { cidr: parseCidr('10.65.0.96/27'), what: 'the network of interface "eth1"' };
    const changes = [toldOf(pool(4, { vxlanMode: 'Always' })), ...NODES, ...BLOCKS];
    const late = networkOf(changes);
    expect(late.setProtected([network])).toMatchObject([
      { kind: 'delete-route', route: { destination: parseCidr('10.65.0.64/26') } },
    ]);
    const state = new ClusterState('claims');
    const early = new DesiredNetwork(SELF, state);
    early.setOwnNetwork(own());
    early.setProtected([network]);
    for (const change of changes) early.replan(state.apply(change, 0));
    for (const desired of [early, late]) {
      expect(Object.keys(hops(desired))).toEqual(['10.65.0.0/26', '10.65.0.128/26']);
      expect(describeRefused(desired.refusedBlocks)).toEqual([
        'routes: no route leads to block 10.65.0.64/26 of pool "pool4", which would cut the node off from 10.65.0.96/27, the network of interface "eth1"; delete the pods with addresses of the pool, then the pool',
      ]);
    }
    late.setProtected([]);
    early.replan(state.apply({ kind: 'block', cidr: parseCidr('10.65.0.64/26'), block: undefined }, 0));
    expect([early.refusedBlocks, late.refusedBlocks]).toEqual([[], []]);
    expect(hops(late)).toMatchObject({ '10.65.0.64/26': '10.65.0.127 vxlan.netplug' });
  });

  it('are none for own blocks, borrowed addresses and blocks without a pool over such a range, in both families', () => {
    const lent = new Map([[NAMES[2] ?? SELF, [parseAddress('10.65.0.200')]]]);
    const changes = [toldOf(pool(4, { vxlanMode: 'Always' })), toldOf(pool(6, { vxlanMode: 'Always' })), ...NODES];
    const blocks = [block('10.65.0.0/26', SELF), block('10.65.0.192/26', undefined, lent), block('10.9.0.0/26', SELF)];
    const desired = networkOf([...changes, ...blocks.map(told), ...BLOCKS]);
    const ranges = ['10.65.0.0/24', '10.9.0.7/32', 'fd00:65::/64'];
    desired.setProtected(ranges.map((text) => ({ cidr: parseCidr(text), what: 'the address of a server' })));
    expect(hops(desired)).toEqual({});
    expect(desired.refusedBlocks).toHaveLength(6);
  });

  it('are all replanned only when addresses or tunnels of the node change', () => {
    const state = new ClusterState('claims');
    const desired = new DesiredNetwork(SELF, state);
    desired.setOwnNetwork(own());
    // These changes are not replanned, so that a full replan would find them.
    for (const change of [toldOf(pool(4, { vxlanMode: 'CrossSubnet' })), ...NODES, ...BLOCKS]) state.apply(change, 0);
    expect(desired.setOwnNetwork(own())).toEqual([]);
    const others = [
      own(['vxlan4']),
      moved({ address: parseAddress('192.0.2.9') }),
      moved({ prefixBits: 16 }),
      moved({ device: 'eth1' }),
      { ...own(), addresses: new Map() },
    ];
    for (const other of others) {
      const fresh = new DesiredNetwork(SELF, state);
      fresh.setOwnNetwork(own());
      fresh.setOwnNetwork(other);
      const anew = new DesiredNetwork(SELF, state);
      anew.setOwnNetwork(other);
      expect(hops(fresh)).toEqual(hops(anew));
    }
  });
});

describe('incremental planning', () => {
  const anyNode = fc.constantFrom(...NAMES);
  const anyAddress = (cidr: string): fc.Arbitrary<ReturnType<typeof parseAddress>> =>
    fc.nat({ max: 63 }).map((ordinal) => addressAt(parseCidr(cidr), ordinal));
  const anyBlock = fc
    .constantFrom('10.65.0.0/26', '10.65.0.64/26', '10.65.0.128/26', 'fd00:65::/122', 'fd00:65::40/122')
    .chain((cidr) =>
      fc.record({
        owner: fc.option(anyNode, { nil: undefined }),
        borrowers: fc.uniqueArray(fc.tuple(anyNode, fc.array(anyAddress(cidr), { minLength: 1, maxLength: 2 })), {
          maxLength: 2,
          selector: ([name]) => name,
        }),
        isGone: fc.boolean(),
        cidr: fc.constant(cidr),
      }),
    )
    .map(({ owner, borrowers, isGone, cidr }): ClusterChange => {
      const borrowed = new Map(borrowers.filter(([name]) => name !== owner));
      return {
        kind: 'block',
        cidr: parseCidr(cidr),
        block: isGone ? undefined : block(cidr, owner, disjoint(borrowed)),
      };
    });
  const anyMode = fc.constantFrom<Modes>({}, { vxlanMode: 'Always' }, { vxlanMode: 'CrossSubnet' });
  const anyChange: fc.Arbitrary<ClusterChange> = fc.oneof(
    anyBlock,
    anyBlock,
    fc
      .tuple(anyNode, fc.boolean(), anyNode)
      .map(([name, isTunnelled, tunnelOf]) => toldOf(node(name, { isTunnelled, tunnelOf }))),
    anyNode.map((name): ClusterChange => ({ kind: 'resource', which: { kind: 'Node', name }, resource: undefined })),
    fc.tuple(fc.constantFrom<4 | 6>(...FAMILIES), anyMode).map(([family, modes]) => toldOf(pool(family, modes))),
  );

  it('gives the same routes as a full plan, and its changes bring the kernel to them', () => {
    fc.assert(
      fc.property(fc.array(anyChange, { maxLength: 30 }), fc.integer({ min: 0, max: 40_000 }), (changes, stepMs) => {
        const state = new ClusterState('claims');
        const desired = new DesiredNetwork(SELF, state);
        const kernel = { routes: new Map(), peers: new Map() };
        apply(kernel, desired.setOwnNetwork(own()));
        for (const [index, change] of changes.entries()) {
          const nowMs = index * stepMs;
          apply(kernel, desired.replan(state.apply(change, nowMs)));
          if (state.expire(nowMs)) apply(kernel, desired.replan('all'));
          const anew = new DesiredNetwork(SELF, state);
          anew.setOwnNetwork(own());
          expect(hops(desired)).toEqual(hops(anew));
          expect([...desired.peers.keys()].sort()).toEqual([...anew.peers.keys()].sort());
          expect(desired.routeKinds).toEqual(anew.routeKinds);
          expect(diffTables(desired, kernel)).toEqual([]);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('brings a kernel in any state to the desired one', () => {
    fc.assert(
      fc.property(fc.array(anyChange, { maxLength: 20 }), fc.array(anyChange, { maxLength: 20 }), (wanted, other) => {
        const [desired, found] = [networkOf(wanted), networkOf(other)];
        const kernel = tablesOf([...found.routes.values()], [...found.peers.values()]);
        const tables = { routes: new Map(kernel.routes), peers: new Map(kernel.peers) };
        apply(tables, diffTables(desired, tables));
        expect(diffTables(desired, tables)).toEqual([]);
        expect(tables.routes.size).toBe(desired.routes.size);
      }),
      { numRuns: 200 },
    );
  });
});

/** Each address has one holder only. */
function disjoint(borrowed: RoutedBlock['borrowed']): RoutedBlock['borrowed'] {
  const seen = new Set<string>();
  return new Map(
    [...borrowed].map(([name, addresses]) => [
      name,
      addresses.filter((address) => {
        const key = formatCidr(cidrAround(address, address.family === 4 ? 32 : 128));
        if (seen.has(key)) return false;
        seen.add(key);
        return true;
      }),
    ]),
  );
}

function apply(
  kernel: { routes: Map<string, unknown>; peers: Map<string, unknown> },
  changes: readonly HostChange[],
): void {
  for (const change of changes) {
    if (change.kind === 'put-route') kernel.routes.set(routeKey(change.route), change.route);
    else if (change.kind === 'delete-route') kernel.routes.delete(routeKey(change.route));
    else if (change.kind === 'put-peer') kernel.peers.set(peerKey(change.peer), change.peer);
    else if (change.kind === 'delete-peer') kernel.peers.delete(peerKey(change.peer));
  }
}
