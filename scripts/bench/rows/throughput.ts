// TCP between pods of neighbouring nodes, beside namespaces that static routes alone join in the same way.
import { type Fabric, type FabricNode, type Peer, resourceOf, startFabric } from '../../../test/support/fabric.ts';
import { newNetns } from '../../../test/support/netns.ts';
import { measureRate, startReceiver } from '../../../test/support/traffic-rate.ts';
import { pairsOf, expectReached } from '../../../test/support/traffic.ts';
import { inTurn } from '../attach-rounds.ts';
import { type Curve, type Figure, type Finding, type Plot, ratio } from '../report.ts';
import { quantile } from '../statistics.ts';

const STREAMS = [1, 2, 4];
const ROUNDS = 3;
const SECONDS = 2;
const GIGA = 1e9;

interface Way {
  readonly name: string;
  readonly from: Peer;
  readonly to: Peer;
}

/** The median over the rounds counts. */
export async function measureThroughput(): Promise<Finding> {
  await using scope = new AsyncDisposableStack();
  const fabric = scope.use(await startFabric());
  await fabric.apply(
    resourceOf('IPPool', 'routed', { cidr: '10.68.0.0/16' }),
    resourceOf('IPPool', 'tunnelled', { cidr: '10.69.0.0/16', vxlanMode: 'Always' }),
  );
  await fabric.startAgents();
  const ways = [
    await plainWay(fabric, scope),
    await podWay(fabric, 'pods by BGP', 'routed'),
    await podWay(fabric, 'pods in VXLAN', 'tunnelled'),
  ];
  for (const { to } of ways) scope.use(await startReceiver(to));
  for (const { from, to } of ways) await expectReached(pairsOf([from, to]));

  const rates = new Map(ways.map(({ name }) => [name, STREAMS.map((): number[] => [])]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [index, streams] of STREAMS.entries()) {
      for (const { name, from, to } of inTurn(ways, round)) {
        const rate = await measureRate(from, { address: to.addresses.ipv4, seconds: SECONDS, streams });
        rates.get(name)?.[index]?.push(rate);
      }
    }
  }
  const curves = [...rates].map(([name, rows]): Curve => ({
    name,
    points: rows.map((row, index) => ({ x: STREAMS[index] ?? 0, y: quantile(row, 0.5) / GIGA })),
  }));
  return { figures: figuresOf(curves), plots: [plotOf(curves)] };
}

async function podWay(fabric: Fabric, name: string, pool: string): Promise<Way> {
  const ipam = { assign_ipv6: 'false', ipv4_pools: [pool] };
  return { name, from: await fabric.node('n1').pod(ipam), to: await fabric.node('n2').pod(ipam) };
}

/** Like pods, but made by hand. */
async function plainWay(fabric: Fabric, scope: AsyncDisposableStack): Promise<Way> {
  const [n1, n2] = [fabric.node('n1'), fabric.node('n2')];
  const [from, to] = [await plainPod(n1, 1, scope), await plainPod(n2, 2, scope)];
  await n1.netns.exec('ip', 'route', 'add', `${to.addresses.ipv4}/32`, 'via', n2.addresses.ipv4);
  await n2.netns.exec('ip', 'route', 'add', `${from.addresses.ipv4}/32`, 'via', n1.addresses.ipv4);
  return { name: 'plain veth', from, to };
}

async function plainPod({ netns: host }: FabricNode, subnet: number, scope: AsyncDisposableStack): Promise<Peer> {
  const netns = scope.use(await newNetns());
  const [gateway, address] = [`10.98.${String(subnet)}.1`, `10.98.${String(subnet)}.2`];
  await host.exec('ip', 'link', 'add', 'name', 'plain', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', netns.name);
  await host.exec('ip', 'address', 'add', `${gateway}/24`, 'dev', 'plain');
  await host.exec('ip', 'link', 'set', 'dev', 'plain', 'up');
  await netns.exec('ip', 'address', 'add', `${address}/24`, 'dev', 'eth0');
  await netns.exec('ip', 'link', 'set', 'dev', 'eth0', 'up');
  await netns.exec('ip', 'route', 'add', 'default', 'via', gateway);
  return { name: 'plain', netns, addresses: { ipv4: address, ipv6: '' } };
}

/** With one connection. */
function figuresOf(curves: readonly Curve[]): readonly Figure[] {
  const [plain, routed, tunnelled] = curves.map(({ points }) => points[0]?.y);
  return [
    ...curves.map(({ name, points }) => ({
      id: `throughput.gbits.${name}`,
      what: `TCP between two nodes, ${name}`,
      value: points[0]?.y ?? Number.NaN,
      unit: 'Gbit/s',
    })),
    ...ratio({ id: 'throughput.bgp', what: 'TCP between two nodes, pods by BGP / plain veth' }, routed, plain),
    ...ratio({ id: 'throughput.vxlan', what: 'TCP between two nodes, pods in VXLAN / plain veth' }, tunnelled, plain),
  ];
}

function plotOf(curves: readonly Curve[]): Plot {
  return {
    name: 'throughput',
    title: 'TCP between pods of two nodes',
    x: { label: 'connections at once', scale: 'doubling' },
    y: { label: 'Gbit/s', scale: 'linear' },
    curves,
  };
}
