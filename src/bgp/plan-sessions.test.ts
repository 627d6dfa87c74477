import { describe, expect, it } from 'vitest';
import { bgpConfigurationOf, bgpNodeOf, bgpPeerOf } from '../../test/support/bgp.ts';
import { formatAddress } from '../net/address.ts';
import { planSessions, type SessionsInput } from './plan-sessions.ts';
import type { PlannedSession } from './session.ts';

const reflector = { routeReflectorClusterID: '224.0.0.1' };
const two = [bgpNodeOf(2), bgpNodeOf(3)];

function plan(input: Partial<SessionsInput>): ReturnType<typeof planSessions> {
  return planSessions({ nodeName: 'node-2', nodes: two, configurations: [], peers: [], ...input });
}

/** Returns the IPv4 sessions by the last part of the peer's address. */
function sessionsOf(input: Partial<SessionsInput>): Map<string, PlannedSession> {
  const ipv4 = plan(input).sessions.filter(({ family }) => family === 4);
  return new Map(ipv4.map((session) => [formatAddress(session.peerAddress).split('.')[3] ?? '', session]));
}

describe('the mesh', () => {
  it('connects every pair of nodes in each common family, and the lower address dials', () => {
    const nodes = [...two, bgpNodeOf(4, { ipv6Address: undefined }), { ...bgpNodeOf(5), spec: {} }];
    const of = (nodeName: string): string[] =>
      plan({ nodeName, nodes }).sessions.map(
        ({ name, isPassive, kind }) => `${name} ${kind} ${isPassive ? 'waits' : 'dials'}`,
      );
    expect(of('node-3')).toEqual([
      'peer_172_31_0_2_179 mesh waits',
      'peer_172_31_0_4_179 mesh dials',
      'peer_fd00_172_31__2_179 mesh waits',
    ]);
    expect(of('node-4')).toEqual(['peer_172_31_0_2_179 mesh waits', 'peer_172_31_0_3_179 mesh waits']);
    expect(of('node-5')).toEqual([]);
    expect(of('node-9')).toEqual([]);
  });

  it('uses AS numbers and ports of each node, and password and restart time of the cluster', () => {
    const password = { file: '/etc/netplug/bgp/mesh' };
    const configurations = [
      bgpConfigurationOf({ asNumber: 65_000, listenPort: 1790, nodeMeshPassword: password, nodeMeshMaxRestartTime: 9 }),
      bgpConfigurationOf({ listenPort: 1791 }, 'node.node-3'),
    ];
    const nodes = [bgpNodeOf(2), bgpNodeOf(3, { asNumber: 65_003 })];
    expect(sessionsOf({ nodes, configurations }).get('3')).toMatchObject({
      ownAs: 65_000,
      peerAs: 65_003,
      listenPort: 1790,
      peerPort: 1791,
      passwordReference: password,
      restartTimeS: 9,
      announces: 'own',
      accepts: 'pools',
      nextHop: 'self',
    });
  });

  it('has no sessions when it is disabled, and none with route reflectors', () => {
    expect(plan({ configurations: [bgpConfigurationOf({ nodeToNodeMeshEnabled: false })] }).sessions).toEqual([]);
    const nodes = [bgpNodeOf(2), bgpNodeOf(3, reflector)];
    expect(plan({ nodes }).sessions).toEqual([]);
    expect(plan({ nodes, nodeName: 'node-3' }).sessions).toEqual([]);
  });

  it('distinguishes peers in the subnet of the node from those behind a router', () => {
    const nodes = [...two, bgpNodeOf(4, { ipv4Address: '198.51.100.4/24' })];
    const sessions = [...sessionsOf({ nodes }).values()];
    expect(sessions.map(({ reach }) => reach)).toEqual(['direct', 'multihop']);
  });
});

describe('peers by address', () => {
  const peerIP = '172.31.0.9';

  it.each([
    ['no node', {}, 'global', ['node-2', 'node-3']],
    ['a node', { node: 'node-3' }, 'node', ['node-3']],
    ['a selector of nodes', { nodeSelector: 'rack == "a"' }, 'node', ['node-2']],
  ])('belong to the nodes that %s selects', (_what, who, kind, owners) => {
    const nodes = [bgpNodeOf(2, {}, { rack: 'a' }), bgpNodeOf(3)];
    const peers = [bgpPeerOf('router', { ...who, peerIP, asNumber: 65_001 })];
    const kinds = ['node-2', 'node-3'].flatMap((nodeName) => {
      const session = sessionsOf({ nodeName, nodes, peers }).get('9');
      return session === undefined ? [] : [[nodeName, session.kind]];
    });
    expect(kinds).toEqual(owners.map((owner) => [owner, kind]));
  });

  it('have every setting of their resource', () => {
    const password = { secretKeyRef: { name: 'bgp', key: 'router' } };
    const spec = { asNumber: 65_001, password, maxRestartTime: 7, numAllowedLocalASNumbers: 2, ttlSecurity: 3 };
    const peers = [
      bgpPeerOf('a', { ...spec, peerIP: '172.31.0.9:1790', sourceAddress: 'None', keepOriginalNextHop: true }),
      bgpPeerOf('b', { peerIP: '172.31.0.10', asNumber: 65_001 }),
    ];
    const sessions = sessionsOf({ peers });
    expect(sessions.get('9')).toMatchObject({
      name: 'peer_172_31_0_9_1790',
      peerNode: undefined,
      peerPort: 1790,
      sourceAddress: undefined,
      nextHop: 'keep',
      restartTimeS: 7,
      allowedOwnAs: 2,
      ttlSecurityHops: 3,
      passwordReference: password,
      announces: 'own-and-learned',
      accepts: 'everything',
      isPassive: false,
    });
    expect(sessions.get('10')).toMatchObject({ nextHop: 'self', restartTimeS: 120, peerPort: 179 });
    expect(sessions.get('10')?.sourceAddress).toEqual({ family: 4, value: 0xac1f0002n });
  });

  it('have BFD of their own resource, and the mesh that of the cluster', () => {
    const [own, mesh] = [
      { intervalMs: 100, multiplier: 5 },
      { intervalMs: 300, multiplier: 3 },
    ];
    const configurations = [bgpConfigurationOf({ nodeMeshBfd: mesh })];
    const peers = [
      bgpPeerOf('a', { peerIP: '172.31.0.9', asNumber: 65_001, bfd: own }),
      bgpPeerOf('b', { peerIP: '172.31.0.10', asNumber: 65_001 }),
    ];
    const sessions = sessionsOf({ configurations, peers });
    expect(['3', '9', '10'].map((peer) => sessions.get(peer)?.bfd)).toEqual([mesh, own, undefined]);
    expect(sessionsOf({}).get('3')?.bfd).toBeUndefined();
  });

  it('exclude the node itself and unreachable peers, with the reason', () => {
    const peers = [
      bgpPeerOf('self', { peerIP: '172.31.0.2', asNumber: 64_512 }),
      bgpPeerOf('link', { peerIP: 'fe80::1', asNumber: 64_512 }),
      bgpPeerOf('none', { peerIP: '::', asNumber: 64_512 }),
      bgpPeerOf('other-family', { peerIP: '2001:db8::1', asNumber: 64_512 }),
      bgpPeerOf('stored', {
        peerIP: '172.31.0.9',
        asNumber: 64_512,
        sourceAddress: 'None',
        bfd: { intervalMs: 300, multiplier: 3 },
      }),
    ];
    const { sessions, problems } = plan({ nodes: [bgpNodeOf(2, { ipv6Address: undefined })], peers });
    expect(sessions).toEqual([]);
    expect(problems.map(({ path, message }) => `${path}: ${message}`)).toEqual([
      'BGPPeer.link.spec.peerIP: no session with fe80::1: a link-local address does not identify the link',
      'BGPPeer.none.spec.peerIP: no session with ::: the unspecified address identifies no peer',
      'BGPPeer.other-family.spec.peerIP: no session with 2001:db8::1: node "node-2" has no IPv6 address',
      'BGPPeer.stored.spec.peerIP: no session with 172.31.0.9: BFD needs sourceAddress "UseNodeIP"',
    ]);
  });

  it('become one session when they share an endpoint: of the node first, then global, then the mesh', () => {
    const peers = [
      bgpPeerOf('a-global', { peerIP: '172.31.0.3', asNumber: 65_001 }),
      bgpPeerOf('b-own', { node: 'node-2', peerIP: '172.31.0.3', asNumber: 65_002 }),
    ];
    expect(sessionsOf({ peers }).get('3')).toMatchObject({ kind: 'node', peerAs: 65_002, peerNode: 'node-3' });
    expect(sessionsOf({ peers: peers.slice(0, 1) }).get('3')).toMatchObject({ kind: 'global', peerAs: 65_001 });
    expect(sessionsOf({}).get('3')).toMatchObject({ kind: 'mesh' });
  });

  it('are dialled, regardless of the addresses, when their node does not dial back', () => {
    const configurations = [bgpConfigurationOf({ nodeToNodeMeshEnabled: false })];
    const oneWay = [bgpPeerOf('a', { node: 'node-3', peerIP: '172.31.0.2', asNumber: 64_512 })];
    const bothWays = [...oneWay, bgpPeerOf('b', { node: 'node-2', peerIP: '172.31.0.3', asNumber: 64_512 })];
    const isPassive = (nodeName: string, peer: string, peers: SessionsInput['peers']): boolean | undefined =>
      sessionsOf({ nodeName, configurations, peers }).get(peer)?.isPassive;
    expect(isPassive('node-3', '2', oneWay)).toBe(false);
    expect([isPassive('node-3', '2', bothWays), isPassive('node-2', '3', bothWays)]).toEqual([true, false]);
  });
});

describe('route reflectors', () => {
  const configurations = [bgpConfigurationOf({ nodeToNodeMeshEnabled: false })];
  const chosen = { reflector: 'yes' };
  const nodes = [...two, bgpNodeOf(4, reflector, chosen), bgpNodeOf(5, reflector, chosen)];
  const peers = [bgpPeerOf('reflectors', { peerSelector: 'has(reflector)' })];

  it('are peers of all nodes on both ends, and reflect routes for nodes outside their cluster id', () => {
    expect([...sessionsOf({ configurations, nodes, peers }).keys()]).toEqual(['4', '5']);
    const ofReflector = sessionsOf({ configurations, nodes, peers, nodeName: 'node-4' });
    const reflected = [...ofReflector].map(([key, { reflectorClusterId }]) => [key, reflectorClusterId !== undefined]);
    expect(reflected).toEqual([
      ['2', true],
      ['3', true],
      ['5', false],
    ]);
    expect([...ofReflector.values()].map(({ announces, nextHop }) => `${announces} ${nextHop}`)).toEqual(
      Array(3).fill('own-and-learned keep'),
    );
  });

  it('reflect nothing when the cluster id is not an IPv4 address, which is reported as a problem', () => {
    const { problems } = plan({ nodes: [bgpNodeOf(2, { routeReflectorClusterID: 'fd00::1' })] });
    expect(problems).toEqual([expect.objectContaining({ path: 'Node.node-2.spec.bgp.routeReflectorClusterID' })]);
  });
});
