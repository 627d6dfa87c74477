import { describe, expect, it } from 'vitest';
import { kernelContract, networkOf, refusalOf } from './suites/dataplane/kernel.ts';
import { MEMORY_STEPS, MemoryKernel } from '../support/memory/memory-kernel.ts';
import { parseAddress } from '../../src/net/address.ts';

kernelContract('memory', async () => {
  const kernel = new MemoryKernel();
  let pods = 0;
  return {
    kernel,
    newPod: async () => {
      pods += 1;
      kernel.addNetns(`/run/netns/pod-${String(pods)}`);
      return `/run/netns/pod-${String(pods)}`;
    },
    removePod: async (path) => {
      kernel.removeNetns(path);
    },
    addPodInterface: async (path, name) => {
      kernel.addPodInterface(path, name);
    },
    addForeignRoute: async (address) => {
      kernel.addHostRoute(address, 'eth7');
      return 'eth7';
    },
    setDown: async (link, how) => (how === 'flap' ? kernel.flap(link) : kernel.setDown(link)),
    removeHostRoute: async (address) => kernel.removeHostRoute(address),
    [Symbol.asyncDispose]: async () => {},
  };
});

describe('the kernel in memory', () => {
  const signal = new AbortController().signal;

  it.each(MEMORY_STEPS.filter((step) => step !== 'remove-link' && step !== 'delete-leftover'))(
    'leaves nothing when step %s fails, and works the next time',
    async (step) => {
      const kernel = new MemoryKernel();
      kernel.addNetns('/pod');
      kernel.failAt(step);
      const network = networkOf('/pod');
      expect((await refusalOf(kernel.apply(network, signal))).code).toBe('kernel/failed');
      expect(kernel.observe(network)).toMatchObject({ hostLink: undefined, podLink: undefined, hostRoutes: [] });
      expect(await kernel.apply(network, signal)).toEqual({ mtu: 1500 });
    },
  );

  it('keeps a link whose removal fails', async () => {
    const kernel = new MemoryKernel();
    kernel.addNetns('/pod');
    const network = networkOf('/pod');
    await kernel.apply(network, signal);
    kernel.failAt('remove-link');
    expect((await refusalOf(kernel.remove(network.hostLinkName, network.owner))).code).toBe('kernel/failed');
    expect(kernel.listHostLinks()).toHaveLength(1);
  });

  it('keeps the leftover when deleting it fails, and takes over a leftover route', async () => {
    const kernel = new MemoryKernel();
    kernel.addNetns('/pod');
    const network = networkOf('/pod');
    kernel.addHostRoute(parseAddress('10.65.0.1'), 'nplffffffffff');
    await kernel.apply(network, signal);
    kernel.changeSysctl(network.hostLinkName, 'net.ipv4.conf.x.proxy_arp=0');
    kernel.failAt('delete-leftover');
    await refusalOf(kernel.apply(network, signal));
    expect(kernel.observe(network)).toMatchObject({
      hostRoutes: ['10.65.0.1', 'fd00:65::1'],
      wrongSysctls: ['net.ipv4.conf.x.proxy_arp=0'],
    });
  });
});
