// BFD beside sessions of BGP, with a real BIRD in each node: a link that loses every packet and stays up.
import { describe, expect, it } from 'vitest';
import { bgpConfigurationOf, bgpNodeOf, bgpPeerOf, type BgpWorldOfTest, newBgpNodes } from '../support/bgp.ts';
import { poolOf } from '../support/fixtures.ts';
import { until } from '../support/until.ts';

const signal = new AbortController().signal;
const bfd = { intervalMs: 300, multiplier: 3 };
const pools = [poolOf('routed', '10.65.0.0/16'), poolOf('routed6', 'fd00:65::/64')];
const WATCHED = ['10.65.3.0/26', 'fd00:65::c0/122'];
const PLAIN = '10.65.4.0/26';
const held = { 'node-3': WATCHED, 'node-4': [PLAIN] };

/** Node 2 has the peers 3, whom BFD watches, and 4. `bits` of the subnets decide whether these are behind a router. */
function worldOf(bits: readonly [number, number], watched: { readonly bfd?: typeof bfd }): BgpWorldOfTest {
  const nodes = ['hub', 'watched', 'plain'].map((role, index) => {
    const number = index + 2;
    const addresses = {
      ipv4Address: `172.31.0.${String(number)}/${String(bits[0])}`,
      ipv6Address: `fd00:172:31::${String(number)}/${String(bits[1])}`,
    };
    return bgpNodeOf(number, addresses, { role });
  });
  const peerOf = (role: string, more = {}) =>
    bgpPeerOf(role, { nodeSelector: 'role == "hub"', peerSelector: `role == "${role}"`, ...more });
  return {
    nodes,
    configurations: [bgpConfigurationOf({ nodeToNodeMeshEnabled: false })],
    peers: [peerOf('watched', watched), peerOf('plain')],
    pools,
    held,
  };
}

describe('BFD', () => {
  it.each([
    ['in the subnet of the node', [24, 64]],
    ['behind a router', [32, 128]],
  ] as const)(
    'withdraws the routes of a peer %s that is lost silently, before BGP notices any',
    async (_where, bits) => {
      await using lab = await newBgpNodes(3);
      const [hub, watched, plain] = [lab.nodes[0]!, lab.nodes[1]!, lab.nodes[2]!];
      for (const node of lab.nodes) await node.follow(worldOf(bits, {}));
      for (const cidr of [...WATCHED, PLAIN]) await hub.untilRoute(cidr);
      const before = await hub.sessionWith(3);
      expect(before).toMatchObject({ bfd: undefined });
      for (const node of lab.nodes) await node.follow(worldOf(bits, { bfd }));
      const states = async (): Promise<readonly (string | undefined)[]> =>
        ((await hub.bird.status(signal)) ?? []).map(
          ({ peerNode, bfd: state }) => `${String(peerNode)} ${String(state)}`,
        );
      const isUp = async (): Promise<boolean> => (await states()).filter((state) => state === 'node-3 Up').length === 2;
      await until(isUp, 'BFD of both families is up');
      expect(await states()).toContain('node-4 undefined');
      // BIRD rounds the time anew in each answer.
      expect(Math.abs(((await hub.sessionWith(3))?.sinceMs ?? 0) - (before?.sinceMs ?? 0))).toBeLessThanOrEqual(1);

      for (const node of [watched, plain]) await node.fallSilent();
      for (const cidr of WATCHED) await hub.untilNoRoute(cidr);
      expect(await hub.route(PLAIN)).toBe('172.31.0.4 metric 8192');
      expect((await hub.sessionWith(4))?.state).toBe('Established');
      expect((await hub.sessionWith(3))?.state).not.toBe('Established');

      for (const node of [watched, plain]) await node.speakAgain();
      for (const cidr of WATCHED) await hub.untilRoute(cidr);
      await until(isUp, 'BFD of both families is up again');
    },
  );

  it('of the mesh takes a graceful exit of BIRD for a loss', async () => {
    await using lab = await newBgpNodes(2);
    const [node, other] = [lab.nodes[0]!, lab.nodes[1]!];
    const { nodes, ...rest } = worldOf([24, 64], {});
    const configurations = [bgpConfigurationOf({ nodeMeshBfd: bfd })];
    const world = { ...rest, nodes: nodes.slice(0, 2), configurations, peers: [] };
    for (const each of lab.nodes) await each.follow(world);
    await node.untilRoute(WATCHED[0]!);
    await until(async () => (await node.sessionWith(3))?.bfd === 'Up', 'BFD is up');
    await other.exitGracefully();
    await node.untilNoRoute(WATCHED[0]!);
    await other.follow(world);
    expect(await node.untilRoute(WATCHED[0]!)).toBe('172.31.0.3 metric 8192');
  });
});
