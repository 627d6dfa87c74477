// The mesh of nodes, with a real BIRD in each.
import { describe, expect, it } from 'vitest';
import type { BgpConfigurationSpec } from '../../src/model/bgp-configuration.ts';
import { bgpConfigurationOf, bgpNodeOf, type BgpWorldOfTest, newBgpNodes, RouteMonitor } from '../support/bgp.ts';
import { poolOf } from '../support/fixtures.ts';
import { until } from '../support/until.ts';

const BLOCK = '10.65.2.0/26';
const BLOCK6 = 'fd00:65::40/122';
function worldOf(numbers: readonly number[], spec: BgpConfigurationSpec = {}): BgpWorldOfTest {
  return {
    nodes: numbers.map((number) => bgpNodeOf(number)),
    configurations: [bgpConfigurationOf(spec)],
    peers: [],
    pools: [
      poolOf('routed', '10.65.0.0/16'),
      poolOf('routed6', 'fd00:65::/64'),
      poolOf('hidden', '10.66.0.0/16', { disableBGPExport: true }),
    ],
    held: { 'node-2': ['10.65.1.0/26'], 'node-3': [BLOCK, BLOCK6, '10.65.1.7/32', '10.66.3.0/26', '10.67.3.0/26'] },
  };
}

describe('the mesh', () => {
  it('brings blocks and borrowed addresses of pools in BGP mode into the kernels of other nodes', async () => {
    await using lab = await newBgpNodes(2);
    const [a, b] = [lab.nodes[0]!, lab.nodes[1]!];
    const world = worldOf([2, 3]);
    expect(await a.follow(world)).toBe('started');
    expect(await b.follow(world)).toBe('started');
    expect(await a.untilRoute(BLOCK)).toBe('172.31.0.3 metric 8192');
    // BIRD names the link-local address of a neighbour where that is known in time.
    expect(await a.untilRoute(BLOCK6)).toMatch(/^(fe80::.*|fd00:172:31::3) metric 8192$/);
    expect(await a.untilRoute('10.65.1.7')).toBe('172.31.0.3 metric 8192');
    expect(await b.untilRoute('10.65.1.0/26')).toBe('172.31.0.2 metric 8192');
    // The kernel has no route of the own block: blackholes are not for BIRD to make. Nor one of other pools.
    expect(await a.netns.ip('route', 'show', 'proto', 'bird')).toHaveLength(2);
    expect(await a.follow(world)).toBe('unchanged');
    expect(await a.bird.status(new AbortController().signal)).toEqual([
      expect.objectContaining({
        kind: 'mesh',
        peerNode: 'node-3',
        state: 'Established',
        routesImported: 2,
        keepsRoutesS: 120,
      }),
      expect.objectContaining({ kind: 'mesh', peerNode: 'node-3', routesImported: 1, routesExported: 0 }),
    ]);
  });

  it('keeps sessions while nodes and blocks come and go', async () => {
    await using lab = await newBgpNodes(3);
    const [a, b, c] = [lab.nodes[0]!, lab.nodes[1]!, lab.nodes[2]!];
    const two = worldOf([2, 3]);
    await a.follow(two);
    await b.follow(two);
    await a.untilEstablished(3);
    const before = await a.sessionWith(3);
    const three = worldOf([2, 3, 4]);
    for (const node of [a, b, c]) await node.follow(three);
    await a.untilEstablished(4);
    await c.untilRoute(BLOCK);
    expect((await a.sessionWith(3))?.sinceMs).toBe(before?.sinceMs);
    const moved = { ...three, held: { 'node-2': ['10.65.1.0/26'], 'node-4': [BLOCK] } };
    for (const node of [b, c, a]) expect(await node.follow(moved)).toBe(node === a ? 'unchanged' : 'reloaded');
    await expect.poll(async () => a.route(BLOCK), { timeout: 60_000 }).toBe('172.31.0.4 metric 8192');
    expect((await a.sessionWith(3))?.sinceMs).toBe(before?.sinceMs);
  });

  it.each([
    ['dials', 'is killed', 2, 3],
    ['waits', 'is killed', 3, 2],
    ['dials', 'exits gracefully', 2, 3],
    ['waits', 'exits gracefully', 3, 2],
  ])('keeps routes when BIRD of a node that %s %s, and takes them up again', async (_role, end, victim, witness) => {
    await using lab = await newBgpNodes(2);
    const { nodes } = lab;
    const [killed, other] = [nodes[victim - 2]!, nodes[witness - 2]!];
    const world = { ...worldOf([2, 3]), held: { 'node-2': ['10.65.1.0/26'], 'node-3': ['10.65.2.0/26'] } };
    for (const node of nodes) await node.follow(world);
    const [lost, kept] = [`10.65.${String(victim - 1)}.0/26`, `10.65.${String(witness - 1)}.0/26`];
    await other.untilRoute(lost);
    await killed.untilRoute(kept);
    using monitor = await RouteMonitor.start(other.netns);
    using ownMonitor = await RouteMonitor.start(killed.netns);
    const since = (await other.sessionWith(victim))?.sinceMs ?? 0;
    await (end === 'is killed' ? killed.kill() : killed.exitGracefully());
    expect(await killed.follow(world)).toBe('started');
    await expect
      .poll(async () => (await other.sessionWith(victim))?.sinceMs ?? 0, { timeout: 60_000 })
      .toBeGreaterThan(since);
    await other.untilEstablished(victim);
    await killed.untilEstablished(witness);
    expect([await other.route(lost), await killed.route(kept)]).toEqual([
      `172.31.0.${String(victim)} metric 8192`,
      `172.31.0.${String(witness)} metric 8192`,
    ]);
    for (const each of [monitor, ownMonitor]) expect(await each.events()).not.toContain('Deleted 10.65.');
    await killed.bird.stop(new AbortController().signal);
    await other.untilNoRoute(lost);
    expect(await monitor.events()).toContain(`Deleted ${lost}`);
  });

  it('removes stale routes once the killed BIRD of a node is back', async () => {
    await using lab = await newBgpNodes(2);
    const [a, b] = [lab.nodes[0]!, lab.nodes[1]!];
    const world = worldOf([2, 3]);
    for (const node of lab.nodes) await node.follow(world);
    await a.untilRoute(BLOCK);
    await a.kill();
    const moved = { ...world, held: { 'node-3': ['10.65.5.0/26'] } };
    await b.follow(moved);
    expect(await a.route(BLOCK)).toBe('172.31.0.3 metric 8192');
    await a.follow(moved);
    await a.untilRoute('10.65.5.0/26');
    await a.untilNoRoute(BLOCK);
  });

  it('counts the links that the host gets while the same BIRD runs', async () => {
    await using lab = await newBgpNodes(1);
    const node = lab.nodes[0]!;
    const newest = async (...numbers: number[]): Promise<number[]> => {
      const counts: number[] = [];
      for (const number of numbers) counts.push(await node.bird.linksSinceStart(number));
      return counts;
    };
    await node.follow(worldOf([2]));
    expect(await newest(10, 17)).toEqual([0, 7]);
    // The host has a network namespace of another boot.
    expect(await newest(4, 5)).toEqual([0, 1]);
    await node.exitGracefully();
    await node.follow(worldOf([2]));
    expect(await newest(9, 10)).toEqual([0, 1]);
    await node.kill();
    await node.follow(worldOf([2]));
    expect(await newest(12)).toEqual([0]);
  });

  it('needs the same password on both sides', async () => {
    await using lab = await newBgpNodes(2);
    const [a, b] = [lab.nodes[0]!, lab.nodes[1]!];
    const world = worldOf([2, 3], { nodeMeshPassword: { secretKeyRef: { name: 'mesh', key: 'password' } } });
    await a.follow(world, { mesh: "it's \\ a secret\n" });
    await b.follow(world, { mesh: 'another' });
    const isRefused = async (): Promise<boolean> =>
      !(await b.netns.exec('nstat', '-a', '-z', 'TcpExtTCPMD5Failure')).match(/MD5Failure +0 /);
    await until(isRefused, 'the kernel refuses a segment with another password');
    expect((await a.sessionWith(3))?.state).not.toBe('Established');
    expect(await b.follow(world, { mesh: "it's \\ a secret" })).toBe('reloaded');
    await a.untilEstablished(3);
    expect(await b.follow(world)).toBe('reloaded');
    expect(await b.sessionWith(2)).toBeUndefined();
  });
});
