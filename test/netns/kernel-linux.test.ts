import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { kernelContract, networkOf } from '../contract/suites/dataplane/kernel.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { formatCidr, hostCidr } from '../../src/net/cidr.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';

kernelContract('linux', async () => {
  const scope = new AsyncDisposableStack();
  const host = scope.use(await newNetns());
  const inside = enterNetns(host);
  scope.defer(() => {
    inside.leave();
  });
  const pods = new Map<string, TestNetns>();
  const podAt = (path: string): TestNetns => pods.get(path)!;
  return {
    kernel: linuxKernel(),
    newPod: async () => {
      const pod = scope.use(await newNetns());
      pods.set(pod.path, pod);
      return pod.path;
    },
    removePod: async (path) => podAt(path)[Symbol.asyncDispose](),
    addPodInterface: async (path, name) => {
      await podAt(path).exec('ip', 'link', 'add', 'name', name, 'type', 'veth');
    },
    addForeignRoute: async (address) => {
      await host.exec('ip', 'link', 'add', 'name', 'foreign0', 'type', 'veth');
      await host.exec('ip', 'link', 'set', 'dev', 'foreign0', 'up');
      await host.exec('ip', 'route', 'add', formatCidr(hostCidr(address)), 'dev', 'foreign0');
      return 'foreign0';
    },
    setDown: async (link, how) => {
      await host.exec('ip', 'link', 'set', 'dev', link, 'down');
      if (how === 'flap') await host.exec('ip', 'link', 'set', 'dev', link, 'up');
    },
    removeHostRoute: async (address) => {
      await host.exec('ip', 'route', 'del', formatCidr(hostCidr(address)));
    },
    [Symbol.asyncDispose]: async () => scope.disposeAsync(),
  };
});

it('a link with both ends on the host leads to no pod', async () => {
  await using host = await newNetns();
  const inside = enterNetns(host);
  try {
    const kernel = linuxKernel({ allowOwnNetns: true });
    await kernel.apply(networkOf(host.path, { addresses: ['10.65.0.1'] }), new AbortController().signal);
    expect(kernel.listHostLinks()).toHaveLength(1);
    expect(kernel.listConnectedLinks()).toEqual([]);
  } finally {
    inside.leave();
  }
});

it('the Linux kernel adapter never changes the namespace of its process', async () => {
  const links = (): string => execFileSync('ip', ['-br', 'link'], { encoding: 'utf8' });
  const before = links();
  await using host = await newNetns();
  await using pod = await newNetns();
  const inside = enterNetns(host);
  try {
    await linuxKernel().apply(networkOf(pod.path), new AbortController().signal);
  } finally {
    inside.leave();
  }
  expect(linuxKernel().listHostLinks()).toEqual([]);
  expect(links()).toBe(before);
  expect((await host.ip('link')).map((link) => link['ifname'])).toContain('npl0123456789a');
});
