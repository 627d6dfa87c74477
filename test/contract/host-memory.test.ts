import { describe, expect, it } from 'vitest';
import { refusalOf } from './suites/dataplane/kernel.ts';
import { hostContract, putRoute, vxlan } from './suites/dataplane/host-network.ts';
import { MemoryHostNetwork } from '../support/memory/memory-host-network.ts';
import { tryReadCidr } from '../../src/net/cidr.ts';
import { until } from '../support/until.ts';

hostContract('memory', async () => {
  const host = new MemoryHostNetwork();
  return {
    host,
    addInterface: async (name, addresses) => {
      putLink(host, name, addresses);
    },
    addForeignRoute: async (destination) => {
      host.addForeignRoute(destination, 'administrator');
    },
    addLearnedRoute: async (destination, _, metric) => {
      host.addLearnedRoute({ destination, metric, device: 'up0' });
    },
    countForeignRoutes: async (destination) => host.countForeignRoutes(destination),
    deleteRoute: async (route) => {
      host.disturb([{ kind: 'delete-route', route }]);
    },
    checkSources: async (link) => {
      host.checkSources(link);
    },
    stopForwarding: async (link) => {
      host.stopForwarding(link);
    },
    addOrdinaryLink: async (name) => {
      host.addOrdinaryLink(name);
    },
    addPodLink: async () => {
      host.addPodLink();
    },
    until: async (isTrue, what) => until(isTrue, what, 1000, 1),
    [Symbol.asyncDispose]: async () => {},
  };
});

describe('the host in memory', () => {
  const signal = new AbortController().signal;

  it('refuses once what the test chose, and counts requests', async () => {
    const host = new MemoryHostNetwork();
    host.refuseNext(({ kind }) => kind === 'put-route');
    const change = putRoute('10.65.0.0/26');
    expect(await host.change([change], signal)).toEqual([{ change, reason: 'the kernel says ENOBUFS' }]);
    expect(await host.change([change], signal)).toEqual([]);
    expect(host.changesMade).toBe(2);
  });

  it('has no tunnels of a kind that the test took away', async () => {
    const host = new MemoryHostNetwork();
    putLink(host, 'up0', []);
    host.removeModule('vxlan');
    expect((await refusalOf(host.putTunnel(vxlan()))).code).toBe('kernel/module-missing');
  });

  it('loses tunnels and routes with the link under them', async () => {
    const host = new MemoryHostNetwork();
    putLink(host, 'up0', ['192.0.2.1/24']);
    await host.putTunnel(vxlan());
    const onTunnel = putRoute('10.65.1.0/26', '10.65.1.1', { reach: 'on-link', device: 'tun0' });
    await host.change([putRoute('10.65.0.0/26', '192.0.2.2'), onTunnel], signal);
    host.removeInterface('up0');
    expect(host.tunnels).toEqual([]);
    expect(await host.listRoutes()).toEqual([]);
  });

  it('reports that events were lost', async () => {
    const host = new MemoryHostNetwork();
    const kinds: string[] = [];
    using _watch = host.watch(({ kind }) => kinds.push(kind));
    host.loseEvents();
    await until(() => kinds.length > 0, 'the loss is reported', 1000, 1);
    expect(kinds).toEqual(['unknown']);
  });
});

function putLink(host: MemoryHostNetwork, name: string, addresses: readonly string[]): void {
  host.putInterface({
    name,
    mtu: 1500,
    isUp: true,
    isLoopback: false,
    addresses: addresses.map((text) => {
      const { address, cidr } = tryReadCidr(text)!;
      return { address, prefixBits: cidr.prefixBits };
    }),
  });
}
