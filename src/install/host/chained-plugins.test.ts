import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { endChain, findChained } from './chained-plugins.ts';

const never = new AbortController().signal;
const CONFLIST = {
  cniVersion: '1.0.0',
  name: 'k8s-pod-network',
  plugins: [
    { type: 'netplug', ipam: { type: 'netplug-ipam' } },
    { type: 'portmap', snat: true, capabilities: { portMappings: true } },
    { type: 'bandwidth', capabilities: { bandwidth: true, other: false } },
    { type: '../../tmp/evil' },
  ],
};
const cached = (change: object = {}, conflist: object = CONFLIST): string =>
  JSON.stringify({
    kind: 'cniCacheV1',
    containerId: 'c1',
    ifName: 'eth0',
    networkName: 'k8s-pod-network',
    netns: '/run/netns/cni-1',
    config: Buffer.from(JSON.stringify(conflist)).toString('base64'),
    cniArgs: [
      ['K8S_POD_NAMESPACE', 'shop'],
      ['K8S_POD_NAME', 'web'],
    ],
    capabilityArgs: { portMappings: [{ hostPort: 8081 }], bandwidth: { ingressRate: 1 }, other: 1, constructor: 2 },
    result: { ips: [{ address: '10.0.0.1/32' }] },
    ...change,
  });

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-chain-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));
const put = async (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);

describe('the chains of plugins on a host', () => {
  it('are those of netplug in the records of the runtime, without the records of other networks and broken ones', async () => {
    await put('one', cached());
    await put('other', cached({}, { ...CONFLIST, plugins: [{ type: 'bridge' }, { type: 'portmap' }] }));
    await put('damaged', '{"kind":');
    await put('older', cached({ kind: 'cniCacheV0' }));
    const [one, ...others] = await findChained(folder);
    expect(others).toEqual([]);
    expect(one?.subject).toBe('c1 eth0');
    expect(one?.calls.map(({ type }) => type)).toEqual(['bandwidth', 'portmap']);
    expect(one?.calls[1]?.env).toEqual({
      CNI_COMMAND: 'DEL',
      CNI_CONTAINERID: 'c1',
      CNI_IFNAME: 'eth0',
      CNI_NETNS: '/run/netns/cni-1',
      CNI_ARGS: 'K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web',
    });
    expect(JSON.parse(one?.calls[1]?.stdin ?? '')).toEqual({
      type: 'portmap',
      snat: true,
      capabilities: { portMappings: true },
      name: 'k8s-pod-network',
      cniVersion: '1.0.0',
      runtimeConfig: { portMappings: [{ hostPort: 8081 }] },
      prevResult: { ips: [{ address: '10.0.0.1/32' }] },
    });
    expect(JSON.parse(one?.calls[0]?.stdin ?? '').runtimeConfig).toEqual({ bandwidth: { ingressRate: 1 } });
    expect(await findChained(join(folder, 'missing'))).toEqual([]);
  });

  it('without other plugins have no calls, and end with the record', async () => {
    await put('alone', cached({}, { ...CONFLIST, plugins: [{ type: 'netplug' }] }));
    const [alone] = await findChained(folder);
    expect(alone?.calls).toEqual([]);
    expect(await endChain(alone!, folder, never)).toEqual([]);
    expect(await readdir(folder)).toEqual([]);
  });

  it('end with the DEL of each plugin, also after one that fails, whose reason is told', async () => {
    await put('one', cached());
    const plugin = async (name: string, script: string): Promise<void> => {
      await put(name, `#!/bin/sh\n${script}\n`);
      await chmod(join(folder, name), 0o755);
    };
    await plugin('bandwidth', `echo '{"code":7,"msg":"no such device"}'; exit 1`);
    await plugin('portmap', `cat > ${folder}/said; echo "$CNI_COMMAND $CNI_CONTAINERID" >> ${folder}/said`);
    const [one] = await findChained(folder);
    expect(await endChain(one!, folder, never)).toEqual(['bandwidth: no such device']);
    expect(await readdir(folder)).toContain('one');
    expect(await readFile(join(folder, 'said'), 'utf8')).toMatch(/"portMappings".*DEL c1\n$/);
    await rm(join(folder, 'portmap'));
    expect(await endChain(one!, folder, never)).toEqual([
      'bandwidth: no such device',
      expect.stringMatching(/^portmap: .*(ENOENT|No such file)/),
    ]);
    for (const name of ['bandwidth', 'portmap']) await plugin(name, 'exit 0');
    expect(await endChain(one!, folder, never)).toEqual([]);
    expect((await readdir(folder)).sort()).toEqual(['bandwidth', 'portmap', 'said']);
  });
});
