import { afterEach, expect, it } from 'vitest';
import { hostAt } from '../../../../../test/support/networked-node.ts';
import { until } from '../../../../../test/support/until.ts';
import { systemClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { systemRandom } from '../../../../base/random.ts';
import type { MemoryHostNetwork } from '../../../../../test/support/memory/memory-host-network.ts';
import { parseAddress } from '../../../../net/address.ts';
import { isPodLink } from '../../../../policy/pod-link-names.ts';
import { PodLinkFollower } from './follow-pod-links.ts';
import { type PodLinks, readPodLinks } from './read-pod-links.ts';

let stop = new AbortController();
afterEach(() => {
  stop.abort();
  stop = new AbortController();
});

const ADDRESS = parseAddress('10.0.0.1');

function putLink(host: MemoryHostNetwork, name: string, address: string, prefixBits: number): void {
  const addresses = [{ address: parseAddress(address), prefixBits }];
  host.putInterface({ name, mtu: 1500, isUp: true, isLoopback: false, addresses });
}

it('finds interfaces by routes to single addresses through links with a prefix', async () => {
  const host = hostAt('192.0.2.1/24');
  host.putPath(ADDRESS, 'eni1');
  host.putPath(parseAddress('fd00::1'), 'gke7');
  host.putPath(parseAddress('10.0.0.2'), 'other0');
  const { byAddress, others } = await readPodLinks(host, ['eni', 'gke']);
  expect([...byAddress]).toEqual([
    ['10.0.0.1', 'eni1'],
    ['fd00::1', 'gke7'],
  ]);
  expect(others).toEqual([]);
});

it('takes the route that the host uses of several to an address', async () => {
  const host = hostAt('192.0.2.1/24');
  host.putPath(ADDRESS, 'eni2');
  host.addUnusedPath(ADDRESS, 'eni1');
  expect((await readPodLinks(host, ['eni'])).byAddress.get('10.0.0.1')).toBe('eni2');
  host.putPath(ADDRESS, 'eth0');
  host.addUnusedPath(ADDRESS, 'eni1');
  expect((await readPodLinks(host, ['eni'])).byAddress.size).toBe(0);
});

it('does not take an interface with an IPv4 address of a subnet for that of a pod', async () => {
  const host = hostAt('192.0.2.1/24');
  putLink(host, 'eth1', '10.0.0.254', 32);
  // From a router advertisement, which a pod may send.
  putLink(host, 'eth2', '2001:db8::1', 64);
  for (const [index, device] of ['eth0', 'eth1', 'eth2'].entries())
    host.putPath(parseAddress(`10.0.0.${String(index)}`), device);
  const { byAddress, others } = await readPodLinks(host, ['eth']);
  expect(others).toEqual(['eth0']);
  const found = ['10.0.0.0', '10.0.0.1', '10.0.0.2'].map((address) => byAddress.get(address));
  expect(found).toEqual([undefined, 'eth1', 'eth2']);
});

it('follows routes and links, and names interfaces that are not of pods', async () => {
  const host = hostAt('192.0.2.1/24');
  const seen: (readonly [PodLinks, boolean])[] = [];
  const follower = new PodLinkFollower(
    {
      host,
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      onChange: (links, areOthersChanged) => seen.push([links, areOthersChanged]),
    },
    ['eni'],
  );
  expect(follower.failures()).toHaveLength(1);
  void follower.run(stop.signal);
  await follower.read(stop.signal);
  await until(() => follower.failures().length === 0, 'the interfaces have been read');
  host.putPath(ADDRESS, 'eni1');
  await until(() => seen.at(-1)?.[0].byAddress.get('10.0.0.1') === 'eni1', 'the interface is found');
  expect(seen.at(-1)?.[1]).toBe(false);
  putLink(host, 'eni9', '198.51.100.1', 24);
  await until(() => follower.problems().length === 1, 'the problem is named');
  expect(seen.at(-1)?.[1]).toBe(true);
  expect(follower.problems()[0]).toContain('"eni9"');
  expect(['npl1', 'eni1', 'eni9', 'eth0'].map((name) => isPodLink(follower.names, name))).toEqual([
    true,
    true,
    false,
    false,
  ]);
  host.removePath(ADDRESS);
  await until(() => seen.at(-1)?.[0].byAddress.size === 0, 'the interface is gone');
});

it('reads nothing without prefixes', async () => {
  const host = hostAt('192.0.2.1/24');
  const ports = { host, clock: systemClock, random: systemRandom, log: silentLog, onChange: () => undefined };
  const follower = new PodLinkFollower(ports, []);
  await follower.read(stop.signal);
  await follower.run(stop.signal);
  expect([follower.failures(), follower.problems()]).toEqual([[], []]);
});
