import { afterEach, describe, expect, it } from 'vitest';
import { poolOf } from '../../../../test/support/fixtures.ts';
import {
  hostAt,
  neighbours,
  podOn,
  routesOf,
  startNode,
  stopNodes,
  works,
  worldWith,
} from '../../../../test/support/networked-node.ts';
import { until } from '../../../../test/support/until.ts';
import { type StoreFault, openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import { type Address, parseAddress } from '../../../net/address.ts';

const VXLAN = poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' });

afterEach(stopNodes);

describe('the network of a node', () => {
  it.each([
    ['an interface that comes later', 'interface', 'network of interface "eth1"'],
    ['the address of a server', 'server', 'address of a server'],
  ] as const)(
    'puts no route over %s, names the block, and restores the route when the overlap ends',
    async (_what, kind, named) => {
      const { store } = await worldWith(VXLAN);
      const servers: Address[] = [];
      const host = hostAt('192.0.2.1/24');
      const a = startNode('a', { store, host, servers });
      const block = await podOn(store, 'b');
      const [base] = block.split('/');
      await works(a, startNode('b', { store, host: hostAt('192.0.2.2/24') }));
      await until(async () => (await routesOf(a))[block] !== undefined, 'a routes to the block of b');
      if (kind === 'interface') {
        const { addresses } = (await hostAt(`${base!}/24`).listInterfaces())[1]!;
        host.putInterface({ name: 'eth1', mtu: 1500, isUp: true, isLoopback: false, addresses });
      } else {
        servers.push(parseAddress(base!));
        a.network.renew('servers');
      }
      await until(async () => (await routesOf(a))[block] === undefined, 'the route is gone');
      expect(a.network.problems()).toEqual([
        expect.objectContaining({ text: expect.stringContaining(`block ${block} of pool "v4"`) }),
      ]);
      expect(a.network.problems()).toEqual([expect.objectContaining({ text: expect.stringContaining(named) })]);
      expect(a.network.failures()).toEqual([]);
      if (kind === 'interface') host.removeInterface('eth1');
      servers.splice(0);
      a.network.renew('servers');
      await until(async () => (await routesOf(a))[block] !== undefined, 'the route is there again');
    },
  );

  it('deletes a route of an earlier process over the network of an interface while the datastore is unavailable', async () => {
    const { database, store } = await worldWith(VXLAN);
    const host = hostAt('192.0.2.1/24');
    const a = await neighbours(store, host);
    await a.stop();
    const routes = Object.entries(await routesOf(a));
    const [block = ''] = routes.find(([, hop]) => hop !== 'blackhole') ?? [];
    const { addresses } = (await hostAt(`${block.split('/')[0]!}/24`).listInterfaces())[1]!;
    host.putInterface({ name: 'eth1', mtu: 1500, isUp: true, isLoopback: false, addresses });
    const fault = (): StoreFault => ({ kind: 'unavailable-before' });
    const next = startNode('a', { store: openMemoryStore(database, { fault }), host });
    await until(async () => (await routesOf(a))[block] === undefined, 'the route is gone');
    expect(await routesOf(next)).toEqual(Object.fromEntries(routes.filter(([name]) => name !== block)));
  });
});
