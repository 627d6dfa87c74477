import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { networkOf } from '../../../test/contract/suites/dataplane/kernel.ts';
import { MemoryKernel } from '../../../test/support/memory/memory-kernel.ts';
import { recordText } from '../../../test/support/runtime-record.ts';
import { findUnconnectedPods } from './unconnected-pods.ts';

const NETNS = '/run/netns/cni-1';
const never = new AbortController().signal;
let folder: string;
let kernel: MemoryKernel;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-results-'));
  kernel = new MemoryKernel();
  kernel.addNetns(NETNS);
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

/** Pods without an interface among those of the records, by container; each record is of a container of its own. */
async function found(records: Readonly<Record<string, object>>): Promise<readonly unknown[]> {
  for (const [containerId, change] of Object.entries(records))
    await writeFile(
      join(folder, `k8s-pod-network-${containerId}-eth0`),
      recordText({ containerId, netns: NETNS, ...change }),
    );
  return (await findUnconnectedPods(kernel, folder)).map(({ pod, containerId }) => pod ?? containerId);
}

it('finds a pod that the runtime has recorded, whose namespace exists and that has no link of netplug', async () => {
  expect(await found({ c1: {}, c2: { cniArgs: null } })).toEqual(['shop/web', 'c2']);
});

it('leaves out pods with a link, with an ended namespace or with the path of a process', async () => {
  await kernel.apply(networkOf(NETNS, { containerId: 'c1' }), never);
  kernel.addNetns('/proc/1/ns/net');
  const others = { c2: { netns: '/run/netns/gone' }, c3: { netns: '' }, c4: { netns: '/proc/1/ns/net' } };
  const podless = Object.entries(others).map(([containerId, change]) => [containerId, { ...change, cniArgs: null }]);
  expect(await found({ c1: {}, ...Object.fromEntries(podless) })).toEqual([]);
});

it('leaves out a sandbox whose pod has its interface in the next one', async () => {
  await kernel.apply(networkOf(NETNS, { containerId: 'c2' }), never);
  kernel.addNetns('/run/netns/cni-0');
  expect(await found({ c1: { netns: '/run/netns/cni-0' }, c2: {} })).toEqual([]);
});
