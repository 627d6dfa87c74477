// Route reflectors, routers of the site and nodes behind a router, with a real BIRD in each.
import { describe, expect, it } from 'vitest';
import {
  bgpConfigurationOf,
  bgpNodeOf,
  bgpPeerOf,
  type BgpWorldOfTest,
  newBgpNodes,
  RouteMonitor,
} from '../support/bgp.ts';
import { poolOf } from '../support/fixtures.ts';

const signal = new AbortController().signal;
const pools = [poolOf('routed', '10.65.0.0/16'), poolOf('tunnelled', '10.66.0.0/16', { vxlanMode: 'Always' })];
const noMesh = { nodeToNodeMeshEnabled: false };

/** Node 4 as a router of the site with an AS of its own. */
const ROUTER = `
router id 172.31.0.4;
timeformat protocol "%FT%T.%3f%z";
protocol device {}
protocol direct { ipv4; }
protocol static { ipv4; route 0.0.0.0/0 blackhole; route 198.51.100.0/24 blackhole; route 10.65.9.0/26 blackhole; }
protocol bgp peer_node2 {
  description "global node-2";
  local 172.31.0.4 port 179 as 65001;
  neighbor 172.31.0.2 as 64512;
  direct;
  graceful restart;
  ipv4 { import all; export where source = RTS_STATIC; };
}
`;

describe('a router of the site', () => {
  it.each([
    ['graceful restart; graceful restart time 90;', 120],
    ['graceful restart aware;', 120],
    ['graceful restart off;', 0],
  ])('with "%s" keeps routes for %i s while BIRD restarts', async (setting, keepsRoutesS) => {
    await using lab = await newBgpNodes(3);
    const [node, router] = [lab.nodes[0]!, lab.nodes[2]!];
    await router.beRouter(ROUTER.replace('graceful restart;', setting));
    const peers = [bgpPeerOf('router', { node: 'node-2', peerIP: '172.31.0.4', asNumber: 65_001 })];
    await node.follow({ nodes: [bgpNodeOf(2)], configurations: [], peers, pools, held: {} });
    await node.untilEstablished(4);
    expect(await node.sessionWith(4)).toMatchObject({ keepsRoutesS });
  });

  it('receives blocks with their communities, and its routes are accepted', async () => {
    await using lab = await newBgpNodes(3);
    const [node, other, router] = [lab.nodes[0]!, lab.nodes[1]!, lab.nodes[2]!];
    const world: BgpWorldOfTest = {
      nodes: [bgpNodeOf(2), bgpNodeOf(3)],
      configurations: [
        bgpConfigurationOf({
          communities: [{ name: 'site', value: '65001:300' }],
          prefixAdvertisements: [{ cidr: '10.65.0.0/16', communities: ['site', '64512:1:2'] }],
        }),
      ],
      peers: [bgpPeerOf('router', { node: 'node-2', peerIP: '172.31.0.4', asNumber: 65_001 })],
      pools,
      held: { 'node-2': ['10.65.1.0/26', '10.66.1.0/26'], 'node-3': ['10.65.2.0/26'] },
    };
    await router.beRouter(ROUTER);
    await node.follow(world);
    await other.follow(world);
    await node.untilEstablished(3, 4);
    await expect
      .poll(async () => router.describeRoute('10.65.1.0/26'), { timeout: 60_000 })
      .toMatch(
        /BGP\.next_hop: 172\.31\.0\.2\n.*BGP\.local_pref.*\n.*BGP\.community: \(65001,300\)\n.*large_community: \(64512, 1, 2\)/,
      );
    // What node 3 holds goes through node 2, the only one the router knows.
    await expect.poll(async () => router.describeRoute('10.65.2.0/26')).toContain('BGP.next_hop: 172.31.0.2');
    expect(await router.describeRoute('10.66.1.0/26')).not.toContain('10.66');
    expect(await node.untilRoute('default')).toBe('172.31.0.4 metric 8192');
    expect(await node.untilRoute('198.51.100.0/24')).toBe('172.31.0.4 metric 8192');
    expect(await node.untilRoute('10.65.9.0/26')).toBe('172.31.0.4 metric 8192');
    // From node to node only what is in pools, and that only from its origin.
    expect(await other.netns.ip('route', 'show', 'proto', 'bird')).toEqual([
      expect.objectContaining({ dst: '10.65.1.0/26', gateway: '172.31.0.2' }),
    ]);
    expect(await node.sessionWith(4)).toMatchObject({
      kind: 'node',
      peerNode: undefined,
      peerAs: 65_001,
      routesExported: 2,
    });
  });
});

describe('two route reflectors', () => {
  const inCluster = { routeReflectorClusterID: '224.0.0.1' };
  const world: BgpWorldOfTest = {
    nodes: [bgpNodeOf(2), bgpNodeOf(3), ...[4, 5].map((number) => bgpNodeOf(number, inCluster, { reflector: 'yes' }))],
    configurations: [bgpConfigurationOf(noMesh)],
    peers: [bgpPeerOf('reflectors', { peerSelector: 'reflector == "yes"' })],
    pools,
    held: { 'node-2': ['10.65.1.0/26'], 'node-3': ['10.65.2.0/26'] },
  };

  it('distribute routes between nodes without a mesh, each with the next hop of its origin', async () => {
    await using lab = await newBgpNodes(4);
    const [a, b, reflector] = [lab.nodes[0]!, lab.nodes[1]!, lab.nodes[2]!];
    for (const node of lab.nodes) await node.follow(world);
    expect(await a.untilRoute('10.65.2.0/26')).toBe('172.31.0.3 metric 8192');
    expect(await b.untilRoute('10.65.1.0/26')).toBe('172.31.0.2 metric 8192');
    expect(await reflector.untilRoute('10.65.1.0/26')).toBe('172.31.0.2 metric 8192');
    expect((await a.bird.status(signal))?.map(({ peerNode }) => peerNode)).toEqual([
      'node-4',
      'node-5',
      'node-4',
      'node-5',
    ]);
    // Once, however many reflectors tell of it, and also where one of them is away.
    for (const number of [4, 5]) {
      await expect.poll(async () => (await a.sessionWith(number))?.routesImported, { timeout: 60_000 }).toBe(1);
    }
    await reflector.bird.stop(signal);
    await expect.poll(async () => (await a.sessionWith(4))?.state, { timeout: 60_000 }).not.toBe('Established');
    expect(await a.route('10.65.2.0/26')).toBe('172.31.0.3 metric 8192');
  });

  it('withdraw the routes of a removed node, whose own routes are removed when it is stopped', async () => {
    await using lab = await newBgpNodes(4);
    const [a, b, reflector] = [lab.nodes[0]!, lab.nodes[1]!, lab.nodes[2]!];
    for (const node of lab.nodes) await node.follow(world);
    await a.untilRoute('10.65.2.0/26');
    await b.untilRoute('10.65.1.0/26');
    await reflector.untilRoute('10.65.1.0/26');
    await b.bird.stop(signal);
    expect(await b.netns.ip('route', 'show', 'proto', 'bird')).toEqual([]);
    await a.untilNoRoute('10.65.2.0/26');
    expect(await reflector.route('10.65.1.0/26')).toBe('172.31.0.2 metric 8192');
  });
});

describe('a node in another subnet', () => {
  it('is reached through the router of its subnet', async () => {
    await using lab = await newBgpNodes(2);
    const [near, far] = [lab.nodes[0]!, lab.nodes[1]!];
    // Both say they are alone in their subnet, and have each other behind the router.
    for (const [node, other] of [
      [near, '172.31.0.3'],
      [far, '172.31.0.2'],
    ] as const) {
      await node.netns.exec('ip', 'route', 'add', other, 'via', '172.31.0.1');
    }
    const alone = (number: number): ReturnType<typeof bgpNodeOf> =>
      bgpNodeOf(number, { ipv4Address: `172.31.0.${String(number)}/32` });
    const world: BgpWorldOfTest = {
      nodes: [alone(2), alone(3)],
      configurations: [],
      peers: [],
      pools,
      held: { 'node-3': ['10.65.2.0/26'] },
    };
    using monitor = await RouteMonitor.start(near.netns);
    await near.follow(world);
    await far.follow(world);
    expect(await near.untilRoute('10.65.2.0/26')).toBe('172.31.0.1 metric 8192');
    expect(await monitor.events()).not.toContain('unreachable');
  });
});
