import { afterEach, describe, expect, it } from 'vitest';
import { nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import {
  hostAt,
  podOn,
  routesOf,
  type RunningNode,
  startNode,
  stopNodes,
  works,
  worldWith,
} from '../../../../test/support/networked-node.ts';
import { MemoryHostNetwork } from '../../../../test/support/memory/memory-host-network.ts';
import { until } from '../../../../test/support/until.ts';
import type { Store } from '../../../datastore/store.ts';
import type { NodeSpec } from '../../../model/node.ts';
import { parseAddress } from '../../../net/address.ts';
import { readDetection } from '../../../routing/detect-address-method.ts';

const never = new AbortController().signal;
const VXLAN = poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' });
const NAMES = ['a', 'b', 'c'] as const;

afterEach(stopNodes);

function problemsOf({ network }: RunningNode): readonly string[] {
  return network.problems().map(({ severity, text, remedy = '' }) => `${severity}: ${text} (${remedy})`);
}

async function publishedBy(store: Store, name: string): Promise<string | undefined> {
  return (await store.findResource({ kind: 'Node', name }, never))?.spec.bgp?.ipv4Address;
}

function move(host: MemoryHostNetwork, ...texts: readonly string[]): void {
  const addresses = texts.map((text) => {
    const [address = '', bits] = text.split('/');
    return { address: parseAddress(address), prefixBits: Number(bits) };
  });
  host.putInterface({ name: 'eth0', mtu: 1500, isUp: true, isLoopback: false, addresses });
}

/** Waits until each node publishes what its host has, and reaches the pods of all others. */
async function areConnected(store: Store, nodes: readonly RunningNode[], expected: readonly string[]): Promise<void> {
  await until(
    async () =>
      (await Promise.all(nodes.map(async (_, index) => publishedBy(store, NAMES[index]!)))).join() === expected.join(),
    () => nodes.flatMap(problemsOf).join('\n'),
  );
  await works(...nodes);
  await until(
    async () => (await Promise.all(nodes.map(routesOf))).every((routes) => Object.keys(routes).length === nodes.length),
    'all blocks are routed',
  );
}

/** A node `down` has published 192.0.2.1, and has this InternalIP; that of `a` is 192.0.2.1. Returns the block of a pod of the former. */
async function worldWithout(internalIp: string): Promise<{ readonly store: Store; readonly block: string }> {
  // Without a tunnel, the address of the other one would be a gateway.
  const { store } = await worldWith(poolOf('v4', '10.65.0.0/16', { vxlanMode: 'CrossSubnet' }));
  const specOf = (address: string): NodeSpec => ({ addresses: [{ type: 'InternalIP', address }] });
  const bgp = { ipv4Address: '192.0.2.1/24' };
  await store.createResource({ ...nodeOf('down'), spec: { ...specOf(internalIp), bgp } }, never);
  await store.createResource({ ...nodeOf('a'), spec: specOf('192.0.2.1') }, never);
  return { store, block: await podOn(store, 'down') };
}

describe('the uplink of a node', () => {
  it('forwards IPv4 again when another program has stopped that', async () => {
    const { store } = await worldWith(VXLAN);
    const host = hostAt('192.0.2.1/24');
    await works(startNode('a', { store, host }));
    expect(host.forwardsFrom('eth0')).toBe(true);
    host.stopForwarding('eth0');
    expect(host.forwardsFrom('eth0')).toBe(false);
    await until(() => host.forwardsFrom('eth0'), 'the uplink forwards');
  });
});

describe('the address of a node', () => {
  it.each([2, 3])(
    'is taken from another one of %i that have exchanged theirs, while they run and at their start',
    async (count) => {
      const { store } = await worldWith(VXLAN);
      const names = NAMES.slice(0, count);
      const start = (name: string, host: MemoryHostNetwork): RunningNode => startNode(name, { store, host });
      const at = (shift: number) => names.map((_, index) => `192.0.2.${String(((index + shift) % count) + 1)}/24`);
      const nodes = names.map((name, index) => start(name, hostAt(at(0)[index]!)));
      for (const name of names) await podOn(store, name);
      await areConnected(store, nodes, at(0));
      for (const [index, { host }] of nodes.entries()) move(host, at(1)[index]!);
      await areConnected(store, nodes, at(1));
      await stopNodes();
      for (const [index, { host }] of nodes.entries()) move(host, at(2)[index]!);
      const again = names.map((name, index) => start(name, nodes[index]!.host));
      await areConnected(store, again, at(2));
      expect(again.flatMap(problemsOf)).toEqual([]);
    },
  );

  it('on a bridge such as "br-ex" is named with a method that chooses it, and found as the InternalIP of the Node', async () => {
    const { store } = await worldWith(VXLAN);
    const bridged = (): MemoryHostNetwork => {
      const host = new MemoryHostNetwork();
      const link = { mtu: 1500, isUp: true, isLoopback: false };
      host.putInterface({ ...link, name: 'eth0', addresses: [] });
      const addresses = [{ address: parseAddress('192.0.2.1'), prefixBits: 24 }];
      host.putInterface({ ...link, name: 'br-ex', addresses });
      return host;
    };
    const b = startNode('b', { store, host: bridged() });
    await until(
      () => problemsOf(b).length === 2,
      () => problemsOf(b).join('\n'),
    );
    expect(problemsOf(b)).toContain(
      'error: Cannot find an IPv4 address of the node: no interface that is up has one that counts; 192.0.2.1 of interface "br-ex" is skipped, because Docker names interfaces so (If that is the address of the node, choose it with NETPLUG_IP: "cidr=192.0.2.0/24")',
    );
    await b.stop();
    const spec: NodeSpec = { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] };
    await store.createResource({ ...nodeOf('a'), spec }, never);
    const a = startNode('a', { store, host: bridged() });
    await works(a);
    expect(await publishedBy(store, 'a')).toBe('192.0.2.1/24');
  });

  it('tells what a firewall of the host must let pass, together with those of other nodes', async () => {
    const { store } = await worldWith(VXLAN, poolOf('v6', 'fd00:65::/64'));
    await store.createResource({ ...nodeOf('other'), spec: { bgp: { ipv4Address: '192.0.2.2/24' } } }, never);
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24') });
    expect(a.network.traffic()).toBeUndefined();
    await until(() => a.network.traffic()?.own.size === 1, 'the own address is known');
    expect(a.network.traffic()).toMatchObject({
      families: new Set([4, 6]),
      peers: [parseAddress('192.0.2.2')],
      own: new Map([[4, { address: parseAddress('192.0.2.1'), device: 'eth0' }]]),
      tunnels: ['vxlan4'],
      bgpPort: 179,
    });
  });

  it('is not taken from a node that has it, which keeps its pods, and taken when that one is removed', async () => {
    const { store } = await worldWith(VXLAN);
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24') });
    await works(a);
    const twin = startNode('twin', { store, host: hostAt('192.0.2.1/24') });
    await until(
      () => problemsOf(twin).length === 1,
      () => problemsOf(twin).join('\n'),
    );
    expect(problemsOf(twin)).toEqual([
      'error: Cannot register node "twin" with address 192.0.2.1 of interface "eth0": node "a" has it already (Give each node an address of its own, or choose another one with NETPLUG_IP; remove a node that no longer exists with "netplugctl node remove NAME")',
    ]);
    expect([twin.registered, twin.host.tunnels, await publishedBy(store, 'twin')]).toEqual([[], [], undefined]);
    expect([problemsOf(a), await publishedBy(store, 'a')]).toEqual([[], '192.0.2.1/24']);
    await a.stop();
    await store.deleteResource({ kind: 'Node', name: 'a' }, never);
    await until(async () => (await publishedBy(store, 'twin')) === '192.0.2.1/24', 'it has the address');
    await works(twin);
  });

  it('is kept when another node publishes it later, and that one is named', async () => {
    const { store } = await worldWith(VXLAN);
    await store.createResource({ ...nodeOf('a'), spec: { bgp: { ipv4Address: '192.0.2.1/24' } } }, never);
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24') });
    await works(a);
    await store.createResource({ ...nodeOf('stray'), spec: { bgp: { ipv4Address: '192.0.2.1/24' } } }, never);
    a.host.putInterface((await a.host.listInterfaces())[1]!);
    await until(() => problemsOf(a).some((text) => text.includes('"stray"')), 'it says so');
    expect([a.network.failures(), a.host.tunnels.length, await publishedBy(store, 'a')]).toEqual([
      [],
      1,
      '192.0.2.1/24',
    ]);
  });

  it('is taken from a node whose agent is down, and whose Node has another one now', async () => {
    const { store, block } = await worldWithout('192.0.2.9');
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24') });
    await works(a);
    expect([await publishedBy(store, 'a'), (await routesOf(a))[block]]).toEqual(['192.0.2.1/24', undefined]);
  });

  it('is left to a node whose agent is down, and whose Node has it still', async () => {
    const { store } = await worldWithout('192.0.2.1');
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24') });
    await until(() => problemsOf(a).join().includes('node "down" has it already'), 'it says so');
    expect(await publishedBy(store, 'a')).toBeUndefined();
  });

  it('stays the one before where another node has the new one, and an example of the way out is named', async () => {
    const { store } = await worldWith(VXLAN);
    const host = hostAt('192.0.2.2/24');
    const [, eth0] = await host.listInterfaces();
    host.removeInterface('eth0');
    const addresses = [{ address: parseAddress('10.0.2.15'), prefixBits: 24 }];
    host.putInterface({ name: 'aa0', mtu: 1500, isUp: true, isLoopback: false, addresses });
    host.putInterface(eth0!);
    await store.createResource({ ...nodeOf('a'), spec: { bgp: { ipv4Address: '10.0.2.15/24' } } }, never);
    await store.createResource({ ...nodeOf('b'), spec: { bgp: { ipv4Address: '192.0.2.2/24' } } }, never);
    const detection = { 4: readDetection('interface=aa0'), 6: { kind: 'none' } } as const;
    const b = startNode('b', { store, host, detection });
    await until(
      () => b.registered.length > 0,
      () => problemsOf(b).join('\n'),
    );
    expect(problemsOf(b)).toEqual([
      expect.stringMatching(
        /^warning: .*"a" has it already; it keeps 192\.0\.2\.2 of interface "eth0" \(.*for example "cidr=192\.0\.2\.0\/24"/,
      ),
    ]);
    expect(await publishedBy(store, 'b')).toBe('192.0.2.2/24');
  });

  it('is not given up for one without a network that is there while it is missing for a moment', async () => {
    const { store } = await worldWith(VXLAN);
    const [a, b] = [
      startNode('a', { store, host: hostAt('192.0.2.1/24') }),
      startNode('b', { store, host: hostAt('192.0.2.2/24') }),
    ];
    await works(a, b);
    const tunnels = a.host.tunnels;
    move(a.host, '192.0.2.100/32');
    await until(() => a.network.standing().comparisons > 0, 'it was looked at');
    move(a.host, '192.0.2.100/32', '192.0.2.1/24');
    await until(async () => (await publishedBy(store, 'a')) === '192.0.2.1/24', 'it is there');
    expect(a.host.tunnels).toEqual(tunnels);
  });
});
