import { beforeEach, describe, expect, it } from 'vitest';
import { networkOf } from '../../../../../test/contract/suites/dataplane/kernel.ts';
import { MemoryKernel } from '../../../../../test/support/memory/memory-kernel.ts';
import { virtualClock } from '../../../../base/clock.ts';
import { silentLog } from '../../../../base/log.ts';
import { parseAddress } from '../../../../net/address.ts';
import { LinkRestorer } from './restore-links.ts';

const NETNS = '/run/netns/pod';
const ADDRESS = parseAddress('10.65.0.1');
const MINUTE_MS = 60_000;
const network = networkOf(NETNS);
const never = new AbortController().signal;
const clock = virtualClock(0);
let kernel: MemoryKernel;
let links: LinkRestorer;
beforeEach(async () => {
  kernel = new MemoryKernel();
  kernel.addNetns(NETNS);
  await kernel.apply(network, never);
  links = new LinkRestorer({ hostSides: kernel, clock, log: silentLog });
  await links.reconcile();
});

describe('the host side of the link of a pod', () => {
  it('is made whole again when it was down, and left alone otherwise', async () => {
    expect(links.restored).toBe(0);
    kernel.setDown(network.hostLinkName);
    await links.reconcile();
    expect(kernel.observe(network)).toMatchObject({
      hostLink: { isUp: true },
      hostRoutes: ['10.65.0.1', 'fd00:65::1'],
    });
    await links.reconcile();
    expect({ restored: links.restored, problems: links.problems }).toEqual({ restored: 1, problems: [] });
  });

  it('has settings that are compared once a minute', async () => {
    kernel.changeSysctl(network.hostLinkName, 'net.ipv4.conf.npl.proxy_arp=0');
    await links.reconcile();
    expect(links.restored).toBe(0);
    await clock.sleep(MINUTE_MS, never);
    await links.reconcile();
    expect(kernel.observe(network).wrongSysctls).toEqual([]);
  });

  it('has settings that are compared at once after an event about them, or lost events', async () => {
    for (const kind of ['pod-settings', 'unknown'] as const) {
      kernel.changeSysctl(network.hostLinkName, 'net.ipv4.conf.npl.proxy_arp=0');
      expect(links.handleHostEvent({ kind: 'pod-links' })).toBe(true);
      await links.reconcile();
      expect(kernel.observe(network).wrongSysctls).not.toEqual([]);
      expect(links.handleHostEvent({ kind })).toBe(true);
      await links.reconcile();
      expect(kernel.observe(network).wrongSysctls).toEqual([]);
    }
    expect(links.handleHostEvent({ kind: 'rate-limits' })).toBe(false);
  });

  it('is a problem with its reason as long as another program has the address', async () => {
    kernel.removeHostRoute(ADDRESS);
    kernel.addHostRoute(ADDRESS, 'eth7');
    await links.reconcile();
    expect(links.problems).toEqual([
      expect.stringMatching(/container "c0ffee": no route to 10\.65\.0\.1: .*device "eth7"/),
    ]);
    kernel.removeHostRoute(ADDRESS);
    await links.reconcile();
    expect({ restored: links.restored, problems: links.problems }).toEqual({ restored: 1, problems: [] });
  });
});
