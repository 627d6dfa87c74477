import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';
import { type Address, parseAddress } from '../../../../src/net/address.ts';
import { type Cidr, formatCidr, parseCidr } from '../../../../src/net/cidr.ts';
import type {
  HostChange,
  HostEvent,
  HostNetwork,
  HostRoute,
  Tunnel,
  TunnelPeer,
} from '../../../../src/dataplane/host-network.ts';
import type { WantedPath } from '../../../../src/dataplane/overruled-paths.ts';
import { refusalOf } from './kernel.ts';

/** A fresh host without anything but loopback, and the means to set a scene on it. */
export interface HostFixture extends AsyncDisposable {
  readonly host: HostNetwork;
  /** Makes a link of MTU 1500 that is up, with addresses as `address/bits`. */
  addInterface(name: string, addresses: readonly string[]): Promise<void>;
  /** Puts a route of another program, with a metric of its own. */
  addForeignRoute(destination: Cidr, gateway: Address): Promise<void>;
  /** Those for exactly the destination that are not the agent's. */
  countForeignRoutes(destination: Cidr): Promise<number>;
  /** Puts a route like a routing daemon does. */
  addLearnedRoute(destination: Cidr, gateway: Address, metric: number): Promise<void>;
  /** Does behind the agent's back what the host's administrator may do. */
  deleteRoute(route: HostRoute): Promise<void>;
  /** Makes the link drop IPv4 packets from sources to which no route leads through it. */
  checkSources(link: string): Promise<void>;
  /** Makes the host drop IPv4 packets that come by the link and are for others. */
  stopForwarding(link: string): Promise<void>;
  /** Makes a link of the name that is no tunnel. */
  addOrdinaryLink(name: string): Promise<void>;
  /** Makes the link of another pod. */
  addPodLink(): Promise<void>;
  until(isTrue: () => boolean, what: string): Promise<void>;
}

const never = new AbortController().signal;
const UPLINK = 'up0';
const UPLINK_ADDRESSES = ['192.0.2.1/24', '2001:db8::1/64'];

/** What every HostNetwork does, whatever is underneath. */
export function hostContract(name: string, makeFixture: () => Promise<HostFixture>): void {
  const makeHost = async (): Promise<HostFixture> => {
    const fixture = await makeFixture();
    await fixture.addInterface(UPLINK, UPLINK_ADDRESSES);
    return fixture;
  };

  describe(`host contract (${name}): interfaces`, () => {
    it('lists links with their usable addresses, without the tunnels of netplug', async () => {
      await using fixture = await makeHost();
      await fixture.host.putTunnel(vxlan());
      const listed = await fixture.host.listInterfaces();
      expect(listed.find((one) => one.name === UPLINK)).toEqual({
        name: UPLINK,
        mtu: 1500,
        isUp: true,
        isLoopback: false,
        addresses: [
          { address: parseAddress('192.0.2.1'), prefixBits: 24 },
          { address: parseAddress('2001:db8::1'), prefixBits: 64 },
        ],
      });
      expect(listed.find((one) => one.isLoopback)).toMatchObject({ name: 'lo' });
      expect(listed.map((one) => one.name)).not.toContain('tun0');
    });

    it('numbers links of pods in the order in which they are made', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      expect(await host.newestPodLink()).toBeUndefined();
      await fixture.addPodLink();
      const first = await host.newestPodLink();
      await fixture.addOrdinaryLink('tun1');
      expect(await host.newestPodLink()).toBe(first);
      await fixture.addPodLink();
      expect(await host.newestPodLink()).toBeGreaterThan(Number(first));
    });

    it.each([
      ['192.0.2.77', '192.0.2.1'],
      ['2001:db8::77', '2001:db8::1'],
    ])('tells by which link and with which address packets for %s leave', async (target, source) => {
      await using fixture = await makeHost();
      const found = await fixture.host.lookUp(parseAddress(target));
      expect(found).toEqual({ device: UPLINK, source: parseAddress(source) });
    });

    it('lists by which links packets may leave, and no route that refuses them', async () => {
      await using fixture = await makeHost();
      await fixture.host.change(
        [putRoute('10.65.0.0/26', '192.0.2.2'), putRoute('10.65.1.0/26'), putRoute('fd00:65::/64', '2001:db8::2')],
        never,
      );
      const listed = (await fixture.host.listPaths())
        .filter(({ devices }) => devices.includes(UPLINK))
        .map(({ destination, isConnected, ...rest }) => [formatCidr(destination), isConnected, rest]);
      const expected = { '192.0.2.0/24': true, '2001:db8::/64': true, '10.65.0.0/26': false, 'fd00:65::/64': false };
      const rest = { table: 254, devices: [UPLINK] };
      const rows = Object.entries(expected).map(([destination, isConnected]) => [destination, isConnected, rest]);
      expect(listed).toEqual(expect.arrayContaining(rows));
      expect(listed.map(([destination]) => destination)).not.toContain('10.65.1.0/26');
    });

    it('lists the devices of IPv4 routes that a routing daemon has learned', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      await fixture.addLearnedRoute(parseCidr('fd00:65::/64'), parseAddress('2001:db8::2'), 5000);
      expect(await host.listLearnedDevices(5000)).toEqual([]);
      for (const third of ['0', '1'])
        await fixture.addLearnedRoute(parseCidr(`10.65.${third}.0/24`), parseAddress('192.0.2.2'), 5000);
      expect(await host.listLearnedDevices(5000)).toEqual([UPLINK]);
      expect(await host.listLearnedDevices(4000)).toEqual([]);
    });

    it('finds routes before which another program has one, and says nothing of those that are missing', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      await host.putTunnel(vxlan());
      const routes = ['10.65.1.0/26', '10.65.2.0/26'].map((block) =>
        putRoute(block, '10.65.1.1', { reach: 'on-link', device: 'tun0' }),
      );
      expect(await host.change(routes, never)).toEqual([]);
      const pathTo = (block: string): WantedPath => {
        const destination = parseCidr(block);
        return { address: destination.base, destination, device: 'tun0', gateway: parseAddress('10.65.1.1') };
      };
      const paths = ['10.65.1.0/26', '10.65.2.0/26', '10.65.3.0/26'].map(pathTo);
      expect(await host.findOverruled(paths)).toEqual([]);
      await fixture.addForeignRoute(parseCidr('10.65.2.0/26'), parseAddress('192.0.2.9'));
      await fixture.addForeignRoute(parseCidr('10.65.0.0/16'), parseAddress('192.0.2.9'));
      const by = { rule: undefined, table: 254, type: 'unicast', destination: parseCidr('10.65.2.0/26') };
      expect(await host.findOverruled(paths)).toMatchObject([{ path: paths[1], by }]);
    });

    it('lists the links with reverse path filtering', async () => {
      await using fixture = await makeHost();
      await fixture.addInterface('up1', ['192.0.3.1/24']);
      expect(fixture.host.findSourceChecks([UPLINK, 'up1', 'gone0'])).toEqual(new Set());
      await fixture.checkSources('up1');
      expect(fixture.host.findSourceChecks([UPLINK, 'up1', 'gone0'])).toEqual(new Set(['up1']));
      expect(fixture.host.findSourceChecks([UPLINK])).toEqual(new Set());
    });

    it.each(['198.51.100.1', '2001:db8:1::1'])('reports that there is no route to %s', async (target) => {
      await using fixture = await makeHost();
      expect(await fixture.host.lookUp(parseAddress(target))).toBeUndefined();
      await fixture.host.change([putRoute(`${target}/${target.includes(':') ? '128' : '32'}`)], never);
      expect(await fixture.host.lookUp(parseAddress(target))).toBeUndefined();
    });

    it('enables forwarding once, and reports what was disabled', async () => {
      await using fixture = await makeHost();
      const both = new Set([4, 6] as const);
      const wrong = ['net.ipv4.ip_forward=0', 'net.ipv6.conf.all.forwarding=0'];
      expect(fixture.host.ensureForwarding(both, [UPLINK])).toEqual(wrong);
      expect(fixture.host.ensureForwarding(both, [UPLINK])).toEqual([]);
    });

    it('enables forwarding of IPv4 for a link by which packets of pods come, and of no other', async () => {
      await using fixture = await makeHost();
      await fixture.addInterface('up1', []);
      const { host } = fixture;
      host.ensureForwarding(new Set([4]), []);
      const events: HostEvent[] = [];
      using _watch = host.watch((event) => events.push(event));
      for (const link of [UPLINK, 'up1']) await fixture.stopForwarding(link);
      const isReported = (event: HostEvent): boolean => event.kind === 'settings' && event.devices.includes(UPLINK);
      await fixture.until(() => events.some(isReported), 'the change is reported');
      expect(host.ensureForwarding(new Set([6]), [UPLINK])).not.toContain('net.ipv4.conf.up0.forwarding=0');
      expect(host.ensureForwarding(new Set([4]), [UPLINK, 'gone0'])).toEqual(['net.ipv4.conf.up0.forwarding=0']);
      expect(host.ensureForwarding(new Set([4]), [UPLINK])).toEqual([]);
      expect(host.ensureForwarding(new Set([4]), ['up1'])).toEqual(['net.ipv4.conf.up1.forwarding=0']);
    });
  });

  describe.each([
    { family: 4, block: '10.65.0.0/26', gateway: '192.0.2.2', other: '192.0.2.3' },
    { family: 6, block: 'fd00:65::/122', gateway: '2001:db8::2', other: '2001:db8::3' },
  ])(`host contract (${name}): routes of IPv$family`, ({ block, gateway, other }) => {
    it('lists each that was added, and none that was deleted', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      const changes = [putRoute(block, gateway), putRoute(inside(block, 1))];
      expect(await host.change(changes, never)).toEqual([]);
      expect(await listed(host)).toEqual(routesOf(changes));
      expect(await host.change(changes.map(toDeletion), never)).toEqual([]);
      expect(await host.listRoutes()).toEqual([]);
    });

    it('replaces the one for a destination, with any hop', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      const hops = [gateway, other, undefined, gateway, undefined, other];
      for (const hop of hops) {
        expect(await host.change([putRoute(block, hop)], never)).toEqual([]);
        expect(await host.listRoutes()).toEqual(routesOf([putRoute(block, hop)]));
      }
    });

    it('reaches a gateway outside the subnets of the device', async () => {
      await using fixture = await makeHost();
      const far = block.includes(':') ? 'fd00:99::1' : '203.0.113.1';
      const [refused] = await fixture.host.change([putRoute(block, far)], never);
      expect(refused?.reason).toContain('the kernel says');
      const change = putRoute(block, far, { reach: 'on-link' });
      expect(await fixture.host.change([change], never)).toEqual([]);
      expect(await fixture.host.listRoutes()).toEqual(routesOf([change]));
    });

    it('succeeds in deleting what does not exist', async () => {
      await using fixture = await makeHost();
      expect(await fixture.host.change([toDeletion(putRoute(block, gateway))], never)).toEqual([]);
    });

    it('never touches routes of other programs for the same destination', async () => {
      await using fixture = await makeHost();
      await fixture.addForeignRoute(parseCidr(block), parseAddress(other));
      await fixture.addLearnedRoute(parseCidr(block), parseAddress(other), 4000);
      await fixture.host.change([putRoute(block, gateway)], never);
      expect(await fixture.host.listRoutes()).toHaveLength(1);
      await fixture.host.change([toDeletion(putRoute(block, gateway))], never);
      expect(await fixture.host.listRoutes()).toEqual([]);
      expect(await fixture.countForeignRoutes(parseCidr(block))).toBe(2);
      await fixture.host.change([toDeletion(putRoute(block, gateway))], never);
      expect(await fixture.countForeignRoutes(parseCidr(block))).toBe(2);
    });

    it('lists and deletes those of a routing daemon by their metric', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      const destination = parseCidr(block);
      for (const metric of [4000, 5000]) await fixture.addLearnedRoute(destination, parseAddress(other), metric);
      await host.change([putRoute(block, gateway)], never);
      expect(await host.listLearnedDestinations(5000)).toEqual([destination]);
      const deletion = { kind: 'delete-learned-route', destination, metric: 5000 } as const;
      expect(await host.change([deletion, deletion], never)).toEqual([]);
      expect(await host.listLearnedDestinations(5000)).toEqual([]);
      expect(await host.listLearnedDestinations(4000)).toEqual([destination]);
      expect(await host.listRoutes()).toHaveLength(1);
    });

    it('reports changes to every watcher, also those of other programs', async () => {
      await using fixture = await makeHost();
      const events: HostEvent[] = [];
      using _watch = fixture.host.watch((event) => events.push(event));
      const { route } = putRoute(block, gateway);
      await fixture.host.change([{ kind: 'put-route', route }], never);
      await fixture.until(() => hasEvent(events, { kind: 'route-put', route }), 'the route is reported');
      expect(hasEvent(events, { kind: 'route-deleted', route })).toBe(false);
      await fixture.deleteRoute(route);
      await fixture.until(() => hasEvent(events, { kind: 'route-deleted', route }), 'the deletion is reported');
    });
  });

  describe(`host contract (${name}): changes`, () => {
    it('continue after one that the kernel refuses, which is returned with the reason', async () => {
      await using fixture = await makeHost();
      const good = [putRoute('10.65.0.0/26', '192.0.2.2'), putRoute('10.65.0.64/26')];
      const bad = putRoute('10.65.0.128/26', '192.0.2.2', { device: 'nowhere0' });
      const refused = await fixture.host.change([...good.slice(0, 1), bad, ...good.slice(1)], never);
      expect(refused).toEqual([{ change: bad, reason: 'there is no interface "nowhere0"' }]);
      expect(await listed(fixture.host)).toEqual(routesOf(good));
    });

    it('stop when they are aborted', async () => {
      await using fixture = await makeHost();
      const signal = AbortSignal.abort(new Error('over'));
      await expect(fixture.host.change([putRoute('10.65.0.0/26')], signal)).rejects.toThrow('over');
      expect(await fixture.host.listRoutes()).toEqual([]);
    });
  });

  describe.each([
    { family: 4, local: '192.0.2.1', remote: '192.0.2.2', otherRemote: '192.0.2.3' },
    { family: 6, local: '2001:db8::1', remote: '2001:db8::2', otherRemote: '2001:db8::3' },
  ])(`host contract (${name}): tunnels over IPv$family`, ({ local, remote, otherRemote }) => {
    it('are created once and then not changed', async () => {
      await using fixture = await makeHost();
      expect(await fixture.host.putTunnel(vxlan({ local }))).toBe('changed');
      expect(await fixture.host.putTunnel(vxlan({ local }))).toBe('unchanged');
    });

    it('are corrected in place where that is possible, with their peers and routes', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      await host.putTunnel(vxlan({ local }));
      await host.change([putPeer(peer({ remote })), tunnelRoute()], never);
      const corrected = vxlan({ local, mtu: 1380, addresses: ['10.65.7.7', 'fd00:65::7'] });
      expect(await host.putTunnel(corrected)).toBe('changed');
      expect(await host.putTunnel(corrected)).toBe('unchanged');
      expect(await host.listPeers('tun0')).toEqual([peer({ remote })]);
      expect(await host.listRoutes()).toEqual(routesOf([tunnelRoute()]));
    });

    it('are recreated when the kernel cannot change them', async () => {
      await using fixture = await makeHost();
      await fixture.addInterface('up1', []);
      await fixture.host.putTunnel(vxlan({ local }));
      for (const other of [{ vni: 4097 }, { port: 8472 }, { uplink: 'up1' }]) {
        expect(await fixture.host.putTunnel(vxlan({ local, ...other }))).toBe('replaced');
        expect(await fixture.host.putTunnel(vxlan({ local, ...other }))).toBe('unchanged');
      }
    });

    it('report that a new MAC removed their peers', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      await host.putTunnel(vxlan({ local }));
      await host.change([putPeer(peer({ remote }))], never);
      expect(await host.putTunnel(vxlan({ local, mac: '0a:00:00:00:00:09' }))).toBe('replaced');
      expect(await host.putTunnel(vxlan({ local, mac: '0a:00:00:00:00:09' }))).toBe('unchanged');
      await host.change([putPeer(peer({ remote }))], never);
      expect(await host.listPeers('tun0')).toEqual([peer({ remote })]);
    });

    it('have the peers that were added and not deleted', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      await host.putTunnel(vxlan({ local }));
      const [one, two] = [
        peer({ remote }),
        peer({ remote: otherRemote, gateway: '10.65.2.1', mac: '0a:00:00:00:00:03' }),
      ];
      expect(await host.change([putPeer(one), putPeer(two)], never)).toEqual([]);
      expect(byGateway(await host.listPeers('tun0'))).toEqual([one, two]);
      const moved = { ...one, remote: parseAddress(otherRemote) };
      await host.change([putPeer(moved)], never);
      expect(byGateway(await host.listPeers('tun0'))).toEqual([moved, two]);
      const renamed = { ...moved, mac: '0a:00:00:00:00:05' };
      await host.change([{ kind: 'delete-peer', peer: moved }, putPeer(renamed)], never);
      expect(byGateway(await host.listPeers('tun0'))).toEqual([renamed, two]);
      await host.change([{ kind: 'delete-peer', peer: renamed }], never);
      expect(await host.listPeers('tun0')).toEqual([two]);
      expect(await host.change([{ kind: 'delete-peer', peer: renamed }], never)).toEqual([]);
    });

    it('keep a peer when another gateway with its MAC is deleted', async () => {
      await using fixture = await makeHost();
      await fixture.host.putTunnel(vxlan({ local }));
      const [four, six] = [peer({ remote }), peer({ remote, gateway: 'fd00:65:1::1' })];
      await fixture.host.change([putPeer(four), putPeer(six)], never);
      expect(await fixture.host.listPeers('tun0')).toHaveLength(2);
      await fixture.host.change([{ kind: 'delete-peer', peer: six }], never);
      expect(await fixture.host.listPeers('tun0')).toEqual([four]);
    });
  });

  describe(`host contract (${name}): tunnels`, () => {
    it('are deleted once, with their peers and routes', async () => {
      await using fixture = await makeHost();
      const { host } = fixture;
      await host.putTunnel(vxlan());
      await host.change([putPeer(peer()), tunnelRoute()], never);
      expect(await host.findTunnels(['tun0', 'tun1'])).toEqual(['tun0']);
      expect(await host.removeTunnel('tun0')).toBe(true);
      expect(await host.findTunnels(['tun0', 'tun1'])).toEqual([]);
      expect(await host.removeTunnel('tun0')).toBe(false);
      expect(await host.listPeers('tun0')).toEqual([]);
      expect(await host.listRoutes()).toEqual([]);
    });

    it('do not replace a link of another program', async () => {
      await using fixture = await makeHost();
      await fixture.addOrdinaryLink('tun0');
      const refusal = await refusalOf(fixture.host.putTunnel(vxlan()));
      expect([refusal.code, refusal.message]).toEqual(['kernel/failed', expect.stringContaining('tunnel "tun0"')]);
      expect(await fixture.host.findTunnels(['tun0'])).toEqual([]);
      expect(await fixture.host.removeTunnel('tun0')).toBe(false);
    });

    it('are refused without their uplink, with the reason', async () => {
      await using fixture = await makeHost();
      const refusal = await refusalOf(fixture.host.putTunnel(vxlan({ uplink: 'nowhere0' })));
      expect(refusal.message).toBe('Cannot make tunnel "tun0": there is no interface "nowhere0"');
    });

    it('are reported when they or their peers change', async () => {
      await using fixture = await makeHost();
      const events: HostEvent[] = [];
      using watch = fixture.host.watch((event) => events.push(event));
      await fixture.host.putTunnel(vxlan());
      await fixture.until(() => hasEvent(events, { kind: 'links', devices: ['tun0'] }), 'the tunnel is reported');
      await fixture.host.change([putPeer(peer())], never);
      const { device, mac, gateway, remote } = peer();
      const isTold = async (event: HostEvent): Promise<void> =>
        fixture.until(() => hasEvent(events, event), `${event.kind} is reported`);
      await isTold({ kind: 'neighbour-put', device, gateway, mac });
      await isTold({ kind: 'forwarding-put', device, mac, remote });
      await fixture.host.change([{ kind: 'delete-peer', peer: peer() }], never);
      await isTold({ kind: 'neighbour-deleted', device, gateway });
      await isTold({ kind: 'forwarding-deleted', device, mac, remote });
      watch[Symbol.dispose]();
      await fixture.host.change([putRoute('10.65.0.0/26')], never);
      await fixture.host.listRoutes();
      expect(events.filter(({ kind }) => kind === 'route-put' || kind === 'unknown')).toEqual([]);
    });
  });
}

interface Variation {
  readonly local?: string;
  readonly uplink?: string;
  readonly vni?: number;
  readonly port?: number;
  readonly mtu?: number;
  readonly mac?: string;
  readonly addresses?: readonly string[];
}

/** An ordinary VXLAN device, with what a test wants different. */
export function vxlan(variation: Variation = {}): Tunnel {
  const { local = '192.0.2.1', uplink = UPLINK, vni = 4096, port = 4789, mac = '0a:00:00:00:00:01' } = variation;
  return {
    name: 'tun0',
    mtu: variation.mtu ?? 1400,
    addresses: (variation.addresses ?? ['10.65.0.1', 'fd00:65::1']).map(parseAddress),
    encapsulation: { kind: 'vxlan', mac, vni, port, local: parseAddress(local), uplink },
  };
}

function peer({ remote = '192.0.2.2', gateway = '10.65.1.1', mac = '0a:00:00:00:00:02' } = {}): TunnelPeer {
  return { device: 'tun0', gateway: parseAddress(gateway), mac, remote: parseAddress(remote) };
}

type PutRoute = Extract<HostChange, { readonly kind: 'put-route' }>;

/** A blackhole unless a gateway is given. */
export function putRoute(
  destination: string,
  gateway?: string,
  { reach = 'by-address', device = UPLINK }: { reach?: 'on-link' | 'by-address'; device?: string } = {},
): PutRoute {
  const hop =
    gateway === undefined
      ? ({ kind: 'blackhole' } as const)
      : ({ kind: 'gateway', gateway: parseAddress(gateway), device, isOnLink: reach === 'on-link' } as const);
  return { kind: 'put-route', route: { destination: parseCidr(destination), hop } };
}

export function toDeletion({ route }: PutRoute): HostChange {
  return { kind: 'delete-route', route };
}

function tunnelRoute(): PutRoute {
  return putRoute('10.65.1.0/26', '10.65.1.1', { reach: 'on-link', device: 'tun0' });
}

function putPeer(one: TunnelPeer): HostChange {
  return { kind: 'put-peer', peer: one };
}

function routesOf(changes: readonly PutRoute[]): readonly HostRoute[] {
  return changes.map(({ route }) => route);
}

/** The largest destination first. */
async function listed(host: HostNetwork): Promise<readonly HostRoute[]> {
  const routes = await host.listRoutes();
  const key = ({ destination: { base, prefixBits } }: HostRoute): bigint => base.value * 256n + BigInt(prefixBits);
  return [...routes].sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

function byGateway(peers: readonly TunnelPeer[]): readonly TunnelPeer[] {
  return [...peers].sort((a, b) => (a.gateway.value < b.gateway.value ? -1 : 1));
}

/** The address of that number in the block, alone. */
function inside(block: string, ordinal: number): string {
  const { base } = parseCidr(block);
  return base.family === 4 ? `10.65.0.${String(ordinal)}/32` : `fd00:65::${String(ordinal)}/128`;
}

function hasEvent(events: readonly HostEvent[], wanted: HostEvent): boolean {
  return events.some((event) => isDeepStrictEqual(event, wanted));
}
