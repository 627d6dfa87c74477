import { afterEach, describe, expect, it } from 'vitest';
import { nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import {
  hostAt,
  neighbours,
  podOn,
  routesOf,
  type RunningNode,
  startNode,
  stopNodes,
  works,
  worldWith,
} from '../../../../test/support/networked-node.ts';
import { until } from '../../../../test/support/until.ts';
import { systemClock } from '../../../base/clock.ts';
import { type MemoryFilterTables, MemoryPolicyFilter } from '../../../../test/support/memory/memory-policy-filter.ts';
import type { FilterTable, TableFilter } from '../../../dataplane/policy-filter.ts';
import { type StoreFault, openMemoryStore, type Operation } from '../../../datastore/memory/memory-store.ts';
import { heldAddresses } from '../../../model/ip-block.ts';
import { isTunnelAddress } from '../../../model/tunnel-attachment.ts';
import { type Address, formatAddress, parseAddress } from '../../../net/address.ts';
import { parseCidr } from '../../../net/cidr.ts';
import { NAT_TABLE } from '../../../routing/nat-table.ts';
import { POD_TABLE, renderPodTable } from '../../../routing/pod-table.ts';
import { TUNNEL_TABLE } from '../../../routing/tunnel-table.ts';

const never = new AbortController().signal;
const VXLAN = poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' });

afterEach(stopNodes);

/** Addresses from which the table takes tunnel packets. */
function admittedBy(table: FilterTable | undefined): readonly string[] {
  return [...(table?.sets.values() ?? [])].flatMap(({ elements }) => [...elements.keys()]);
}

describe('the network of a node', () => {
  it('routes to the blocks of other nodes, offers an MTU, and is registered once it works', async () => {
    const { store } = await worldWith(VXLAN);
    const [a, b] = [
      startNode('a', { store, host: hostAt('192.0.2.1/24') }),
      startNode('b', { store, host: hostAt('192.0.2.2/24') }),
    ];
    const block = await podOn(store, 'b');
    await works(a, b);
    const tunnel = (await store.findResource({ kind: 'Node', name: 'b' }, never))?.spec.ipv4VXLANTunnelAddr;
    await until(async () => (await routesOf(a))[block] === `${tunnel!} vxlan.netplug`, 'a routes to the block of b');
    expect((await routesOf(b))[block]).toBe('blackhole');
    expect(a.registered).toEqual([1450]);
    expect(a.host.tunnels.map(({ mtu }) => mtu)).toEqual([1450]);
    expect((await a.host.listPeers('vxlan.netplug')).map(({ remote }) => formatAddress(remote))).toEqual(['192.0.2.2']);
  });

  it('is not changed when the next agent takes it over', async () => {
    const { store } = await worldWith(VXLAN);
    const host = hostAt('192.0.2.1/24');
    const a = await neighbours(store, host);
    await a.stop();
    const [changes, before] = [host.changesMade, await store.findResource({ kind: 'Node', name: 'a' }, never)];
    const events: string[] = [];
    using _watch = host.watch(({ kind }) => events.push(kind));
    await works(startNode('a', { store, host }));
    expect(host.changesMade).toBe(changes);
    expect(events).toEqual([]);
    expect(await store.findResource({ kind: 'Node', name: 'a' }, never)).toEqual(before);
  });

  it.each([
    ['away', () => true],
    ['away once it was read', (operation: Operation) => operation !== 'follow'],
  ])('stays as it is for an agent that begins while the datastore is %s', async (_when, isConcerned) => {
    const { database, store } = await worldWith(VXLAN);
    const host = hostAt('192.0.2.1/24');
    const a = await neighbours(store, host);
    await a.stop();
    const [routes, tunnels, changes] = [await routesOf(a), host.tunnels, host.changesMade];
    let isAway = true;
    const fault = (operation: Operation): StoreFault | undefined =>
      isAway && isConcerned(operation) ? { kind: 'unavailable-before' } : undefined;
    const next = startNode('a', { store: openMemoryStore(database, { fault }), host });
    await until(
      () => next.network.problems().some(({ text }) => text.includes('a fault was requested')),
      'it says why',
    );
    expect([await routesOf(next), host.tunnels, host.changesMade]).toEqual([routes, tunnels, changes]);
    isAway = false;
    await works(next);
    expect([await routesOf(next), host.changesMade]).toEqual([routes, changes]);
  });

  it('accepts tunnel packets of another node before it routes to that node', async () => {
    const { store } = await worldWith(VXLAN);
    const seen: string[] = [];
    const filter: TableFilter = {
      apply: async (table) => {
        // A node joins while the kernel is slow.
        await systemClock.sleep(100, never);
        if (table.name === TUNNEL_TABLE && admittedBy(table).includes('192.0.2.2')) seen.push('admitted');
        return { chains: 1, sets: 0, elements: 0 };
      },
      has: async () => true,
      remove: async () => undefined,
    };
    const host = hostAt('192.0.2.1/24');
    using _watch = host.watch(({ kind }) => seen.push(kind));
    const a = startNode('a', { store, host, filter });
    await works(a);
    seen.splice(0);
    await podOn(store, 'b');
    await works(startNode('b', { store, host: hostAt('192.0.2.2/24') }));
    await until(() => seen.includes('route-put'), 'a routes to the block of b');
    expect(seen.indexOf('admitted')).toBe(0);
  });

  it('accepts tunnel packets of known nodes only while the datastore is unavailable', async () => {
    const { database, store } = await worldWith(VXLAN);
    const tables: MemoryFilterTables = new Map();
    const admitted = (): readonly string[] => admittedBy(tables.get(TUNNEL_TABLE));
    const host = hostAt('192.0.2.1/24');
    let isAway = false;
    const fault = (): StoreFault | undefined => (isAway ? { kind: 'unavailable-before' } : undefined);
    const start = (): RunningNode =>
      startNode('a', { store: openMemoryStore(database, { fault }), host, filter: new MemoryPolicyFilter(tables) });
    const a = start();
    await works(a, startNode('b', { store, host: hostAt('192.0.2.2/24') }));
    await until(() => admitted().includes('192.0.2.2'), 'b is admitted');
    expect(admitted()).toEqual(['192.0.2.2']);
    isAway = true;
    await a.stop();
    const next = start();
    await until(
      () => next.network.problems().some(({ text }) => text.includes('a fault was requested')),
      'it says why',
    );
    expect(admitted()).toEqual(['192.0.2.2']);
    isAway = false;
    await works(next);
    await stopNodes();
    const last = start();
    await works(last);
    await store.deleteResource({ kind: 'Node', name: 'b' }, never);
    await until(() => admitted().length === 0, 'b is not admitted any more');
  });

  it.each(['strict', 'off'] as const)(
    'filters packets of pods before the datastore has answered, with source check %s',
    async (sourceCheck) => {
      const { database } = await worldWith(VXLAN);
      const tables: MemoryFilterTables = new Map();
      const store = openMemoryStore(database, { fault: () => ({ kind: 'unavailable-before' }) });
      const filter = new MemoryPolicyFilter(tables);
      startNode('a', { store, host: hostAt('192.0.2.1/24'), filter, sourceCheck });
      await until(() => tables.size > 0, 'there is a table');
      expect(Object.fromEntries(tables)).toEqual({ [POD_TABLE]: renderPodTable(sourceCheck) });
    },
  );

  it('has each table back when it has compared them, and tells whether one was not as it should be', async () => {
    const { store } = await worldWith(poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always', natOutgoing: true }));
    const tables: MemoryFilterTables = new Map();
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24'), filter: new MemoryPolicyFilter(tables) });
    await works(a);
    const names = [POD_TABLE, TUNNEL_TABLE, NAT_TABLE];
    expect(await a.network.compareTables(names)).toBe(false);
    for (const name of names) {
      tables.delete(name);
      expect([await a.network.compareTables([name]), tables.has(name)]).toEqual([true, true]);
    }
    expect(await a.network.compareTables(names)).toBe(false);
  });

  it('is repaired when another program changes it', async () => {
    const { store } = await worldWith(VXLAN);
    const a = await neighbours(store);
    const [routes, peers] = [await a.host.listRoutes(), await a.host.listPeers('vxlan.netplug')];
    const odd = { destination: parseCidr('10.66.0.0/26'), hop: { kind: 'blackhole' } } as const;
    a.host.disturb([
      ...routes.map((route) => ({ kind: 'delete-route', route }) as const),
      ...peers.map((peer) => ({ kind: 'delete-peer', peer }) as const),
      { kind: 'put-route', route: odd },
    ]);
    await until(async () => (await a.host.listRoutes()).length === routes.length, 'routes are back');
    expect(await a.host.listRoutes()).toEqual(routes);
    expect(await a.host.listPeers('vxlan.netplug')).toEqual(peers);
    a.host.dropTunnel('vxlan.netplug');
    await until(async () => (await a.host.listPeers('vxlan.netplug')).length === peers.length, 'the tunnel is back');
    await until(async () => (await a.host.listRoutes()).length === routes.length, 'and the routes over it');
  });

  it('compares its routes when its own link changes, and not when links of other plugins come and go', async () => {
    const { store } = await worldWith(VXLAN);
    const { host, network } = await neighbours(store);
    const { comparisons } = network.standing();
    for (let index = 0; index < 20; index += 1) {
      const name = `veth${String(index)}`;
      host.putInterface({ name, mtu: 1500, isUp: true, isLoopback: false, addresses: [] });
      await systemClock.sleep(30, never);
      host.removeInterface(name);
    }
    expect(network.standing().comparisons).toBe(comparisons);
    const [own] = (await host.listInterfaces()).filter(({ name }) => name === 'eth0');
    host.putInterface({ ...own!, mtu: 1400 });
    await until(() => network.standing().comparisons > comparisons, 'routes are compared');
  });

  it('reports changes that the kernel refuses, applies the rest, and retries', async () => {
    const { store } = await worldWith(VXLAN);
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24') });
    await works(a);
    a.host.refuseNext((change) => change.kind === 'put-route', 'the kernel says ENOBUFS');
    const block = await podOn(store, 'b');
    startNode('b', { store, host: hostAt('192.0.2.2/24') });
    await until(() => a.network.problems().some(({ text }) => text.includes('ENOBUFS')), 'it says so');
    expect(await a.host.listPeers('vxlan.netplug')).toHaveLength(1);
    await until(async () => (await routesOf(a))[block] !== undefined, 'it is tried again');
    await works(a);
  });

  it('works without IP-in-IP on a kernel that lacks it, and reports that', async () => {
    const { store } = await worldWith(VXLAN, poolOf('ipip', '10.70.0.0/16', { ipipMode: 'Always' }));
    const host = hostAt('192.0.2.1/24');
    host.removeModule('ipip');
    const a = startNode('a', { store, host });
    await until(() => host.tunnels.length === 1, 'VXLAN is there');
    await until(
      () => a.network.problems().length === 1,
      () =>
        a.network
          .problems()
          .map(({ text }) => text)
          .join('\n'),
    );
    expect(a.network.problems()[0]?.text).toMatch(/ipip/);
    await until(() => a.registered.length > 0, 'the node is registered');
  });

  it('releases the address of a tunnel that no pool needs any more', async () => {
    const { store } = await worldWith(VXLAN);
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24') });
    await works(a);
    const held = async (): Promise<number> =>
      (await store.listBlocks(never)).blocks.reduce((sum, { value }) => sum + value.slots.size, 0);
    expect(await held()).toBe(1);
    await store.deleteResource({ kind: 'IPPool', name: 'v4' }, never);
    await until(async () => (await held()) === 0 && a.host.tunnels.length === 0, 'address and tunnel are gone');
    const published = async (): Promise<unknown> =>
      (await store.findResource({ kind: 'Node', name: 'a' }, never))?.spec.ipv4VXLANTunnelAddr;
    await until(async () => (await published()) === undefined, 'it is no longer published');
  });

  it('is updated when the address of its node changes', async () => {
    const { store } = await worldWith(VXLAN);
    await store.createResource(nodeOf('a', { zone: 'x' }), never);
    const [a, b] = [
      startNode('a', { store, host: hostAt('192.0.2.1/24') }),
      startNode('b', { store, host: hostAt('192.0.2.2/24') }),
    ];
    await works(a, b);
    const addresses = [{ address: parseAddress('192.0.2.77'), prefixBits: 24 }];
    a.host.putInterface({ name: 'eth0', mtu: 1400, isUp: true, isLoopback: false, addresses });
    await until(
      async () =>
        (await b.host.listPeers('vxlan.netplug')).some(({ remote }) => formatAddress(remote) === '192.0.2.77'),
      'b reaches it there',
    );
    const node = await store.findResource({ kind: 'Node', name: 'a' }, never);
    expect([node?.metadata.labels, node?.spec.bgp?.ipv4Address]).toEqual([{ zone: 'x' }, '192.0.2.77/24']);
    await until(() => a.registered.at(-1) === 1350, 'pods are offered what is left');
  });

  it('is not registered while the MTU is too small for IPv6, and reports that', async () => {
    const { store } = await worldWith(VXLAN, poolOf('v6', 'fd00:65::/64'));
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24', 1300) });
    await until(
      () =>
        a.network.problems().some(({ text }) => text.startsWith('registration: Cannot offer an MTU to pods: 1250 of')),
      () =>
        a.network
          .problems()
          .map(({ text }) => text)
          .join('\n'),
    );
    expect(a.registered).toEqual([]);
  });

  it('is kept when the record of a pool is malformed', async () => {
    const { database, store } = await worldWith(VXLAN);
    const a = await neighbours(store);
    const before = [await routesOf(a), a.host.tunnels];
    database.damage({ kind: 'IPPool', name: 'v4' });
    await settled();
    expect([await routesOf(a), a.host.tunnels]).toEqual(before);
  });

  it('is kept while its link is down for a moment, and when a new pool contains its address', async () => {
    const { store } = await worldWith(VXLAN);
    const [host, link] = [hostAt('192.0.2.1/24'), (await hostAt('192.0.2.1/24').listInterfaces())[1]!];
    const [a, b] = [startNode('a', { store, host }), startNode('b', { store, host: hostAt('192.0.2.2/24') })];
    const block = await podOn(store, 'b');
    await works(a, b);
    await until(async () => (await routesOf(a))[block] !== undefined, 'the block of b is routed');
    const before = [await routesOf(a), host.tunnels, await store.findResource({ kind: 'Node', name: 'a' }, never)];
    await store.createResource(poolOf('around', '192.0.2.0/24'), never);
    await settled();
    await store.deleteResource({ kind: 'IPPool', name: 'around' }, never);
    host.putInterface({ ...link, isUp: false, addresses: [] });
    await settled();
    host.putInterface(link);
    await settled();
    expect([await routesOf(a), host.tunnels, await store.findResource({ kind: 'Node', name: 'a' }, never)]).toEqual(
      before,
    );
  });

  it('works with one address family, and holds no addresses of the other', async () => {
    const { store } = await worldWith(VXLAN, poolOf('v6', 'fd00:65::/64', { vxlanMode: 'Always' }));
    const a = startNode('a', { store, host: hostAt('192.0.2.1/24') });
    await until(
      () => a.registered.length > 0,
      () => a.network.failures().join(', '),
    );
    expect(a.network.failures()).toEqual([]);
    expect(a.network.problems().map(({ text }) => text)).toEqual([expect.stringContaining('IPv6')]);
    const { blocks } = await store.listBlocks(never);
    expect(blocks.map(({ value }) => value.cidr.base.family)).toEqual([4]);
  });

  it.each(['nothing has changed', 'tunnel addresses are due for a check'])(
    'recreates its tunnel and the routes over it while the datastore is unavailable and %s',
    async (situation) => {
      const { database, store } = await worldWith(VXLAN);
      let isAway = false;
      const fault = (operation: Operation): StoreFault | undefined =>
        isAway && operation !== 'follow' ? { kind: 'unavailable-before' } : undefined;
      const host = hostAt('192.0.2.1/24');
      const a = await neighbours(openMemoryStore(database, { fault }), host);
      await works(a);
      const [tunnels, routes] = [host.tunnels, await routesOf(a)];
      isAway = true;
      if (situation !== 'nothing has changed') {
        const node = await store.findResource({ kind: 'Node', name: 'a' }, never);
        await store.updateResource({ ...nodeOf('a', { zone: 'x' }), spec: node!.spec }, never);
        await until(
          () => a.network.problems().some(({ text }) => text.startsWith('tunnels: ')),
          'the address manager is asked',
        );
      }
      host.dropTunnel('vxlan.netplug');
      await until(() => host.tunnels.length > 0, 'the tunnel is back');
      await until(
        async () => Object.keys(await routesOf(a)).length === Object.keys(routes).length,
        'the routes are back',
      );
      expect([host.tunnels, await routesOf(a)]).toEqual([tunnels, routes]);
    },
  );

  it('holds the address of its tunnel again when the datastore has lost the block, and moves nothing', async () => {
    const { store } = await worldWith(VXLAN);
    const host = hostAt('192.0.2.1/24');
    const a = await neighbours(store, host);
    await works(a);
    const [before] = host.tunnels;
    const held = async (): Promise<readonly Address[]> => {
      const { blocks } = await store.listBlocks(never);
      return blocks.flatMap(({ value }) =>
        heldAddresses(value, (each) => isTunnelAddress(each) && each.node === 'a').map(({ address }) => address),
      );
    };
    expect(await held()).toEqual(before?.addresses);
    for (const block of (await store.listBlocks(never)).blocks)
      await store.commit([{ kind: 'delete-block', before: block }], never);
    await until(async () => (await held()).length > 0, 'the address is held again');
    expect(await held()).toEqual(before?.addresses);
    expect(host.tunnels[0]).toEqual(before);
  });

  it('does not fail while the datastore is unavailable, but when nothing can be routed', async () => {
    const { database, store } = await worldWith(VXLAN);
    await store.createResource(nodeOf('a'), never);
    let isAway = false;
    let refusals = 0;
    // The watch lives, so that its own Node has the agent publish again at once.
    const fault = (operation: Operation): StoreFault | undefined => {
      if (!isAway || operation === 'follow') return undefined;
      refusals += 1;
      return { kind: 'unavailable-before' };
    };
    const a = startNode('a', { store: openMemoryStore(database, { fault }), host: hostAt('192.0.2.1/24') });
    expect(a.network.disconnections()).toBeUndefined();
    await works(a);
    await until(() => a.network.disconnections() !== undefined, 'it is registered');
    isAway = true;
    await store.updateResource(nodeOf('a', { zone: 'x' }), never);
    await until(() => a.network.problems().some(({ text }) => text.startsWith('node facts: ')), 'it says so');
    const before = refusals;
    await until(() => refusals > before, 'it is tried again');
    await settled();
    expect([a.network.failures(), a.network.disconnections()]).toEqual([[], []]);

    isAway = false;
    await works(a);
    a.bird.refusal = new Error('BIRD does not start');
    await store.createResource(poolOf('routed', '10.66.0.0/16'), never);
    const failing = ['bgp: BIRD does not start'];
    await until(() => a.network.failures().length > 0, 'it fails');
    expect([a.network.failures(), a.network.disconnections()]).toEqual([failing, failing]);
    a.bird.refusal = undefined;
    await until(() => a.network.disconnections()?.length === 0, 'it is connected again');
  });
});

/** Waits until what was told has had its effects. */
async function settled(): Promise<void> {
  await systemClock.sleep(300, never);
}
