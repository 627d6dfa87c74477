import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readLeftOversBeside } from './read-left-overs.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'npl-left-'));
  for (const device of ['vxlan.calico', 'cilium_host', 'flannel.1', 'kube-bridge', 'weave'])
    await mkdir(join(folder, 'sys/net/ipv4/conf', device), { recursive: true });
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const KNOWN = ['Calico', 'Cilium', 'flannel', 'kube-router', 'Weave'];

it.each<[string, readonly string[], object]>([
  ['podman', [], { plugins: [{ type: 'bridge', bridge: 'cni-podman0', ipam: { type: 'host-local' } }] }],
  ['loopback of CRI-O', [], { type: 'loopback' }],
  ['netplug', [], { plugins: [{ type: 'netplug', ipam: { type: 'netplug-ipam' } }] }],
  ['Calico, also with tunnels of flannel', ['Calico', 'flannel'], { plugins: [{ type: 'calico' }] }],
  ['flannel, also with policies of kube-router', ['flannel', 'kube-router'], { plugins: [{ type: 'flannel' }] }],
  ['kube-router', ['kube-router'], { plugins: [{ type: 'bridge', bridge: 'kube-bridge' }] }],
  ['Cilium that multus calls', ['Cilium'], { type: 'multus', delegates: [{ type: 'cilium-cni' }] }],
  ['policies of Calico beside another plugin', ['Calico'], { plugins: [{ type: 'aws-cni' }] }],
])(
  'finds left-overs of all plugins but those in use beside the configuration of %s',
  async (_, inUse, configuration) => {
    await writeFile(join(folder, '10-some.conflist'), JSON.stringify(configuration, undefined, 2));
    const tables = { list: async () => Promise.resolve([]), listIpSets: async () => Promise.resolve([]) };
    const found = await readLeftOversBeside({ procDir: folder, tables }, folder, AbortSignal.timeout(5000));
    expect(found.map(({ plugin }) => plugin)).toEqual(KNOWN.filter((plugin) => !inUse.includes(plugin)));
  },
);
