import { describe, expect, it } from 'vitest';
import { type NetplugError, isNetplugError } from '../../../../src/base/errors.ts';
import { type Address, formatAddress, parseAddress } from '../../../../src/net/address.ts';
import { parseCidr } from '../../../../src/net/cidr.ts';
import { HOST_MAC } from '../../../../src/net/mac.ts';
import { until } from '../../../support/until.ts';
import type { HostSides, Kernel, PodNetwork } from '../../../../src/dataplane/kernel.ts';

/** A fresh host with a kernel of its own, and the means to set a scene on it. */
export interface KernelFixture extends AsyncDisposable {
  readonly kernel: Kernel & HostSides;
  /** Makes a pod's namespace and returns its path. */
  newPod(): Promise<string>;
  removePod(path: string): Promise<void>;
  /** Puts an interface that is not netplug's into the pod. */
  addPodInterface(path: string, name: string): Promise<void>;
  /** Has the host route the address to a device that is not netplug's, and returns the name of the device. */
  addForeignRoute(address: Address): Promise<string>;
  /** Sets the link on the host down, and up again with `flap`. */
  setDown(link: string, how: 'flap' | 'stay'): Promise<void>;
  removeHostRoute(address: Address): Promise<void>;
}

const never = new AbortController().signal;

/** What every Kernel does, whatever is underneath. */
export function kernelContract(name: string, makeFixture: () => Promise<KernelFixture>): void {
  describe(`kernel contract (${name})`, () => {
    it('accepts the namespace of a pod and refuses a path that does not exist', async () => {
      await using host = await makeFixture();
      const pod = await host.newPod();
      host.kernel.assertNetns(pod);
      expect(() => {
        host.kernel.assertNetns('/run/netns/npl-test-nowhere');
      }).toThrow(expect.objectContaining({ code: 'kernel/netns-invalid' }));
    });

    it('shows nothing of a network that was never applied', async () => {
      await using host = await makeFixture();
      const state = host.kernel.observe(networkOf(await host.newPod()));
      expect(state).toMatchObject({ podAddresses: [], podRoutes: [], hostRoutes: [] });
      expect([state.hostLink, state.podLink]).toEqual([undefined, undefined]);
    });

    it('shows after apply exactly the requested network', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod(), { mtu: 1400, queues: 2, allowIpForwarding: true });
      expect(await host.kernel.apply(network, never)).toEqual({ mtu: 1400 });
      const { hostLink, podLink, ...state } = host.kernel.observe(network);
      const { hostLinkName: linkName, owner } = network;
      expect(hostLink).toMatchObject({ name: linkName, mac: HOST_MAC, mtu: 1400, isUp: true, owner });
      expect(podLink).toEqual({
        mac: network.podMac,
        mtu: 1400,
        isUp: true,
        peerIndex: hostLink?.index,
        queues: 2,
      });
      expect([...state.podRoutes].sort()).toEqual(['0.0.0.0/0 via 169.254.1.1', '::/0 via fe80::ecee:eeff:feee:eeee']);
      expect(state).toMatchObject({
        podAddresses: ['10.65.0.1/32', 'fd00:65::1/128'],
        hostRoutes: ['10.65.0.1', 'fd00:65::1'],
        wrongSysctls: [],
        ipForwarding: { 4: true, 6: true },
      });
      expect(host.kernel.listHostLinks()).toEqual([hostLink]);
    });

    it("returns the kernel's MTU when none is requested", async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      const { mtu } = await host.kernel.apply(network, never);
      expect(host.kernel.observe(network).podLink?.mtu).toBe(mtu);
    });

    it('replaces the link of an earlier sandbox, which then can no longer remove it', async () => {
      await using host = await makeFixture();
      const earlier = networkOf(await host.newPod(), { containerId: 'earlier' });
      const later = networkOf(await host.newPod(), { containerId: 'later' });
      await host.kernel.apply(earlier, never);
      await host.kernel.apply(later, never);
      expect(host.kernel.listHostLinks().map(({ owner }) => owner?.containerId)).toEqual(['later']);
      expect(host.kernel.observe(earlier).podLink).toBeUndefined();
      expect(await host.kernel.remove(earlier.hostLinkName, earlier.owner)).toBe(false);
      expect(host.kernel.observe(later).hostRoutes).toHaveLength(2);
    });

    it('keeps the link of another interface that has the same name on the host', async () => {
      await using host = await makeFixture();
      const living = networkOf(await host.newPod(), { containerId: 'web' });
      await host.kernel.apply(living, never);
      const same = networkOf(await host.newPod(), { containerId: 'other', addresses: ['10.65.0.2'] });
      const secondary = { ...same, owner: { ...same.owner, ifName: 'net1' } };
      const refusal = await refusalOf(host.kernel.apply(secondary, never));
      expect([refusal.code, refusal.message]).toEqual([
        'kernel/interface-exists',
        `Cannot make interface "${living.hostLinkName}" on the host: interface "eth0" of container "web" has that name`,
      ]);
      expect(host.kernel.observe(living).hostRoutes).toHaveLength(2);
    });

    it('keeps the link of another pod, or of another pod of the same name, that has the same name on the host', async () => {
      await using host = await makeFixture();
      const living = networkOf(await host.newPod(), { containerId: 'db' });
      await host.kernel.apply(living, never);
      const same = networkOf(await host.newPod(), { containerId: 'x', podMark: 'beef', addresses: ['10.65.0.2'] });
      const { podMark: _, ...ofNoPod } = same.owner;
      for (const other of [same, { ...same, owner: ofNoPod }]) {
        const refusal = await refusalOf(host.kernel.apply(other, never));
        expect([refusal.code, refusal.message]).toEqual([
          'kernel/interface-exists',
          `Cannot make interface "${living.hostLinkName}" on the host: interface "eth0" of container "db" has that name`,
        ]);
      }
      expect(host.kernel.observe(living).hostRoutes).toHaveLength(2);
    });

    it('finds what the host side of a link lacks, and makes it again', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      await host.kernel.apply(network, never);
      const missing = async (): Promise<readonly string[]> =>
        (await host.kernel.listIncompleteLinks({ settings: true })).flatMap((each) => each.missing);
      const [link] = host.kernel.listHostLinks();
      expect(link?.addresses).toEqual(network.addresses);
      expect(await missing()).toEqual([]);
      const [first, ...others] = ['no route to 10.65.0.1', 'no route to fd00:65::1', 'no IPv6 gateway'];
      for (const [harm, expected] of [
        [async () => host.removeHostRoute(parseAddress('10.65.0.1')), [first]],
        [async () => host.setDown(network.hostLinkName, 'flap'), [first, ...others]],
        [async () => host.setDown(network.hostLinkName, 'stay'), ['it is down', first, ...others]],
      ] as const) {
        await harm();
        expect(await missing()).toEqual(expected);
        host.kernel.complete(link!);
        expect(await missing()).toEqual([]);
        expect(host.kernel.observe(network).hostRoutes).toEqual(['10.65.0.1', 'fd00:65::1']);
      }
    });

    it('leaves an address to one of two links that have it, and completes each with its own', async () => {
      await using host = await makeFixture();
      const earlier = networkOf(await host.newPod(), { containerId: 'earlier' });
      await host.kernel.apply(earlier, never);
      await host.removeHostRoute(parseAddress('10.65.0.1'));
      const later = networkOf(await host.newPod(), {
        containerId: 'later',
        hostLinkName: 'npl9999999999a',
        addresses: ['10.65.0.1'],
      });
      await host.kernel.apply(later, never);
      for (const { hostLinkName } of [earlier, later]) await host.setDown(hostLinkName, 'flap');
      const incomplete = await host.kernel.listIncompleteLinks({ settings: false });
      const lacking = incomplete.filter(({ missing }) => missing.includes('no route to 10.65.0.1'));
      expect(lacking).toHaveLength(1);
      for (const { link } of incomplete) host.kernel.complete(link);
      const routed = [earlier, later].flatMap((network) => host.kernel.observe(network).hostRoutes);
      expect(routed.toSorted()).toEqual(['10.65.0.1', 'fd00:65::1']);
    });

    it('makes no route again that now leads elsewhere, nor anything of a link that has gone', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      await host.kernel.apply(network, never);
      const [link] = host.kernel.listHostLinks();
      await host.removeHostRoute(parseAddress('10.65.0.1'));
      await host.addForeignRoute(parseAddress('10.65.0.1'));
      expect(() => host.kernel.complete(link!)).toThrow(expect.objectContaining({ code: 'kernel/foreign-route' }));
      await host.kernel.remove(network.hostLinkName, network.owner);
      host.kernel.complete(link!);
      expect(await host.kernel.listIncompleteLinks({ settings: true })).toEqual([]);
    });

    it('replaces its own link when the same sandbox is applied again', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      await host.kernel.apply(network, never);
      await host.kernel.apply({ ...network, mtu: 1300 }, never);
      expect(host.kernel.observe(network).podLink?.mtu).toBe(1300);
      expect(host.kernel.listHostLinks()).toHaveLength(1);
    });

    it('refuses an address that the link of another attachment has, names that, and leaves both as they were', async () => {
      await using host = await makeFixture();
      const living = networkOf(await host.newPod(), { hostLinkName: 'npl0000000000a', containerId: 'living' });
      const second = networkOf(await host.newPod(), { hostLinkName: 'npl0000000000b' });
      await host.kernel.apply(living, never);
      const refusal = await refusalOf(host.kernel.apply(second, never));
      expect(refusal.code).toBe('kernel/address-in-use');
      expect(refusal.message).toContain('"living"');
      expect(refusal.message).toContain('10.65.0.1');
      expect(host.kernel.observe(living).hostRoutes).toEqual(['10.65.0.1', 'fd00:65::1']);
      expect(host.kernel.listHostLinks()).toHaveLength(1);
    });

    it('lists the addresses that it routes to pods, with the attachment of each', async () => {
      await using host = await makeFixture();
      await host.addForeignRoute(parseAddress('10.65.0.9'));
      const one = networkOf(await host.newPod(), { hostLinkName: 'npl0000000000a', containerId: 'one' });
      const other = networkOf(await host.newPod(), {
        hostLinkName: 'npl0000000000b',
        containerId: 'other',
        addresses: ['10.65.0.2'],
      });
      expect(await host.kernel.listPodAddresses()).toEqual([]);
      await host.kernel.apply(one, never);
      await host.kernel.apply(other, never);
      const listed = (await host.kernel.listPodAddresses()).map(
        ({ address, owner }) => `${formatAddress(address)} ${owner.containerId}`,
      );
      expect(listed.sort()).toEqual(['10.65.0.1 one', '10.65.0.2 other', 'fd00:65::1 one']);
      await host.kernel.remove(one.hostLinkName, one.owner);
      expect(await host.kernel.listPodAddresses()).toHaveLength(1);
    });

    it('refuses an address the host routes elsewhere, names address and device, and leaves nothing', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      // The second address: the first has nothing against it.
      const device = await host.addForeignRoute(parseAddress('fd00:65::1'));
      const refusal = await refusalOf(host.kernel.apply(network, never));
      expect(refusal.code).toBe('kernel/foreign-route');
      expect(refusal.message).toContain('fd00:65::1');
      expect(refusal.message).toContain(`"${device}"`);
      expectNothingOf(host.kernel, network);
    });

    it('refuses an interface name the pod has already, names it, and leaves nothing', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      await host.addPodInterface(network.netns, 'eth0');
      const refusal = await refusalOf(host.kernel.apply(network, never));
      expect(refusal.code).toBe('kernel/interface-exists');
      expect(refusal.message).toContain('"eth0"');
      expect(refusal.message).toContain(`"${network.netns}"`);
      expect(host.kernel.listHostLinks()).toEqual([]);
    });

    it('refuses an interface name that another attachment of the pod has, and keeps both its link and a leftover', async () => {
      await using host = await makeFixture();
      const [pod, elsewhere] = [await host.newPod(), await host.newPod()];
      const holder = networkOf(pod, { hostLinkName: 'npl0000000000a' });
      const leftover = networkOf(elsewhere, { hostLinkName: 'npl0000000000b', addresses: ['10.65.0.2'] });
      await host.kernel.apply(holder, never);
      await host.kernel.apply(leftover, never);
      const refusal = await refusalOf(host.kernel.apply({ ...leftover, netns: pod }, never));
      expect(refusal.code).toBe('kernel/interface-exists');
      expect(host.kernel.observe(holder).podLink).toBeDefined();
      expect(host.kernel.observe(leftover).hostRoutes).toEqual(['10.65.0.2']);
    });

    it.each(['10.65.0.1', 'fd00:65::1'])('serves a pod that has only %s', async (address) => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod(), { addresses: [address], allowIpForwarding: true });
      await host.kernel.apply(network, never);
      const state = host.kernel.observe(network);
      expect(state).toMatchObject({ hostRoutes: [address], wrongSysctls: [] });
      expect([state.podAddresses.length, state.podRoutes.length]).toEqual([1, 1]);
      expect(state.ipForwarding).toEqual({ 4: address.includes('.'), 6: address.includes(':') });
    });

    it('ends with one whole link when the same network is applied twice at once', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      const calls = [host.kernel.apply(network, never), host.kernel.apply(network, never)];
      const outcomes = await Promise.allSettled(calls);
      expect(outcomes.map(({ status }) => status)).toContain('fulfilled');
      expect(host.kernel.listHostLinks()).toHaveLength(1);
      expect(host.kernel.observe(network)).toMatchObject({ podLink: { isUp: true }, wrongSysctls: [] });
      expect(host.kernel.observe(network).hostRoutes).toHaveLength(2);
    });

    it('leaves nothing when it is aborted before any of its effects', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod(), { allowIpForwarding: true });
      let check = 1;
      while (await isAborted(host.kernel.apply(network, abortingAtCheck(check)))) {
        expectNothingOf(host.kernel, network);
        expect(host.kernel.observe(network).ipForwarding).toEqual({ 4: false, 6: false });
        check += 1;
      }
      expect(check).toBeGreaterThan(4);
      expect(host.kernel.observe(network).hostRoutes).toHaveLength(2);
    });

    it('removes once, and says so', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      await host.kernel.apply(network, never);
      expect(await host.kernel.remove(network.hostLinkName, network.owner)).toBe(true);
      expectNothingOf(host.kernel, network);
      expect(await host.kernel.remove(network.hostLinkName, network.owner)).toBe(false);
    });

    it('does not remove the link of another container or interface', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      await host.kernel.apply(network, never);
      expect(await host.kernel.remove(network.hostLinkName, { ...network.owner, containerId: 'other' })).toBe(false);
      expect(await host.kernel.remove(network.hostLinkName, { ...network.owner, ifName: 'eth1' })).toBe(false);
      expect(host.kernel.listHostLinks()).toHaveLength(1);
    });

    it('shows no pod link when the namespace is gone', async () => {
      await using host = await makeFixture();
      const network = networkOf(await host.newPod());
      await host.kernel.apply(network, never);
      await host.removePod(network.netns);
      expect(host.kernel.observe(network).podLink).toBeUndefined();
    });

    it('tells links of pods from those whose namespace has ended', async () => {
      await using host = await makeFixture();
      const [ended, living] = [await host.newPod(), await host.newPod()];
      await host.kernel.apply(networkOf(ended, { containerId: 'ended', podMark: 'a' }), never);
      const other = { containerId: 'living', hostLinkName: 'npl9999999999a', addresses: ['10.65.0.2'] };
      await host.kernel.apply(networkOf(living, other), never);
      const connected = (): readonly unknown[] =>
        host.kernel.listConnectedLinks().map(({ owner }) => owner?.containerId);
      expect(connected().toSorted()).toEqual(['ended', 'living']);
      await host.removePod(ended);
      await until(async () => Promise.resolve(connected().length === 1), 'one of the namespaces has ended');
      expect(connected()).toEqual(['living']);
    });

    it('serves many pods at once', async () => {
      await using host = await makeFixture();
      const networks = await Promise.all(
        Array.from({ length: 8 }, async (_, index) =>
          networkOf(await host.newPod(), {
            hostLinkName: `npl0000000000${String(index)}`,
            containerId: `c${String(index)}`,
            addresses: [`10.65.1.${String(index)}`],
          }),
        ),
      );
      await Promise.all(networks.map(async (network) => host.kernel.apply(network, never)));
      expect(host.kernel.listHostLinks().map(({ name: linkName }) => linkName)).toEqual(
        networks.map(({ hostLinkName: linkName }) => linkName),
      );
      const removed = networks.map(async ({ hostLinkName, owner }) => host.kernel.remove(hostLinkName, owner));
      expect(await Promise.all(removed)).toEqual(networks.map(() => true));
      expect(host.kernel.listHostLinks()).toEqual([]);
    });
  });
}

export interface Variation {
  readonly podMark?: string;
  readonly containerId?: string;
  readonly hostLinkName?: string;
  readonly mtu?: number;
  readonly queues?: number;
  readonly addresses?: readonly string[];
  readonly allowIpForwarding?: boolean;
}

/** An ordinary dual-stack pod, with what a test wants different. */
export function networkOf(netns: string, variation: Variation = {}): PodNetwork {
  const addresses = (variation.addresses ?? ['10.65.0.1', 'fd00:65::1']).map(parseAddress);
  const routes = ['0.0.0.0/0', '::/0'].map(parseCidr);
  return {
    netns,
    podLinkName: 'eth0',
    hostLinkName: variation.hostLinkName ?? 'npl0123456789a',
    owner: {
      containerId: variation.containerId ?? 'c0ffee',
      ifName: 'eth0',
      network: 'pod net',
      podMark: variation.podMark ?? 'd1ce',
    },
    podMac: '0a:01:02:03:04:05',
    mtu: variation.mtu,
    queues: variation.queues ?? 1,
    addresses,
    routes: routes.filter(({ base }) => addresses.some(({ family }) => family === base.family)),
    allowIpForwarding: variation.allowIpForwarding ?? false,
  };
}

function expectNothingOf(kernel: Kernel, network: PodNetwork): void {
  const { hostLink, podLink, hostRoutes } = kernel.observe(network);
  expect([hostLink, podLink, hostRoutes]).toEqual([undefined, undefined, []]);
  expect(kernel.listHostLinks()).toEqual([]);
}

/** The error the call is refused with; fails when it is not refused. */
export async function refusalOf(call: Promise<unknown>): Promise<NetplugError> {
  try {
    await call;
  } catch (cause) {
    if (isNetplugError(cause)) return cause;
    throw cause;
  }
  throw new Error('was not refused');
}

class Aborted extends Error {}

/** A signal that aborts when it is read for the `check`-th time. */
function abortingAtCheck(check: number): AbortSignal {
  const controller = new AbortController();
  const { signal } = controller;
  let left = check;
  signal.throwIfAborted = () => {
    left -= 1;
    if (left === 0) controller.abort(new Aborted());
    AbortSignal.prototype.throwIfAborted.call(signal);
  };
  return signal;
}

async function isAborted(call: Promise<unknown>): Promise<boolean> {
  try {
    await call;
    return false;
  } catch (cause) {
    if (cause instanceof Aborted) return true;
    throw cause;
  }
}
