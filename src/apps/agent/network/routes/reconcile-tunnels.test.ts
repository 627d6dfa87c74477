import { isDeepStrictEqual } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { poolOf } from '../../../../../test/support/fixtures.ts';
import { requestOf } from '../../../../../test/support/ipam-bench.ts';
import {
  hostAt,
  routesOf,
  startNode,
  stopNodes,
  works,
  worldWith,
} from '../../../../../test/support/networked-node.ts';
import { until } from '../../../../../test/support/until.ts';
import { systemClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { systemRandom } from '../../../../base/random.ts';
import { assign } from '../../../../ipam/assign.ts';
import { heldAddresses } from '../../../../model/ip-block.ts';
import { isTunnelAddress } from '../../../../model/tunnel-attachment.ts';
import { formatAddress, parseAddress } from '../../../../net/address.ts';
import { formatCidr } from '../../../../net/cidr.ts';

const never = new AbortController().signal;

afterEach(stopNodes);

describe('the tunnels of a node', () => {
  it.each([
    ['vxlan.netplug', { vxlanMode: 'Always' }],
    ['ipip.netplug', { ipipMode: 'Always' }],
  ] as const)('move the address of %s out of a pool that is disabled, and keep the routes', async (_device, mode) => {
    const first = poolOf('v4', '10.65.0.0/16', mode);
    const { store } = await worldWith(first);
    const hosts = { a: hostAt('192.0.2.1/24'), b: hostAt('192.0.2.2/24') };
    const [a, b] = [startNode('a', { store, host: hosts.a }), startNode('b', { store, host: hosts.b })];
    const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
    const limits = { signal: never, cleanupSignal: never };
    const [lease] = await assign(ports, requestOf('pod', { node: 'b' }), limits);
    await works(a, b);
    await until(async () => (await routesOf(a))[formatCidr(lease!.block)] !== undefined, 'a routes to the block of b');
    const destinations = Object.keys(await routesOf(a));
    const onTunnel = (): string => a.host.tunnels.flatMap(({ addresses }) => addresses.map(formatAddress)).join();
    const inPool = async (): Promise<number> => {
      const { blocks } = await store.listBlocks(never);
      return blocks.flatMap(({ value }) => heldAddresses(value, isTunnelAddress)).length;
    };
    expect(onTunnel()).toMatch(/^10\.65\./);
    await store.updateResource({ ...first, spec: { ...first.spec, disabled: true } }, never);
    await until(async () => (await inPool()) === 0, 'both nodes have given theirs back');
    await until(() => onTunnel() === '192.0.2.1', "the node's own stands in");
    expect(Object.keys(await routesOf(a))).toEqual(destinations);
    await store.createResource(poolOf('second', '10.66.0.0/16', mode), never);
    await until(() => onTunnel().startsWith('10.66.'), 'the address comes out of another pool');
    expect(Object.keys(await routesOf(a))).toEqual(expect.arrayContaining(destinations));
  });

  it('leave the one for IPv6 out on a link that has too little room for it', async () => {
    const { store } = await worldWith(
      poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' }),
      poolOf('v6', 'fd00:65::/112', { vxlanMode: 'Always', blockSize: 122 }),
    );
    const host = hostAt('192.0.2.1/24');
    const addresses = ['192.0.2.1/24', '2001:db8::1/64'].map((text) => {
      const [address = '', prefix] = text.split('/');
      return { address: parseAddress(address), prefixBits: Number(prefix) };
    });
    host.putInterface({ name: 'eth0', mtu: 1349, isUp: true, isLoopback: false, addresses });
    const { network } = startNode('a', { store, host });
    const problem =
      'Cannot make tunnel "vxlan6.netplug": the MTU of "eth0" is 1349, which leaves 1279, and IPv6 needs 1280';
    const failures = [
      'registration: Cannot offer an MTU to pods: 1279 of 1349 bytes are left after encapsulation, and IPv6 needs 1280',
    ];
    await until(
      () => network.problems().some(({ text }) => text === problem) && isDeepStrictEqual(network.failures(), failures),
      () =>
        network
          .problems()
          .map(({ text }) => text)
          .join('\n'),
    );
    expect(host.tunnels.map(({ name }) => name)).toEqual(['vxlan.netplug']);
    host.putInterface({ name: 'eth0', mtu: 1350, isUp: true, isLoopback: false, addresses });
    await until(() => host.tunnels.length === 2, 'both are there');
    expect(network.problems()).not.toContain(problem);
  });
});
