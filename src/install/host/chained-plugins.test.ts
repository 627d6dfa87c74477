import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { recordText } from '../../../test/support/runtime-record.ts';
import { callPlugin, endChain, othersOf } from './chained-plugins.ts';
import { listRuntimeRecords } from './runtime-records.ts';

const never = new AbortController().signal;
const NAME = 'k8s-pod-network-c1-eth0';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-chain-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));
const put = async (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);
const plugin = async (name: string, script: string): Promise<void> => {
  await put(name, `#!/bin/sh\n${script}\n`);
  await chmod(join(folder, name), 0o755);
};

describe('the chain of an interface', () => {
  it('calls a plugin as the runtime does, and tells why it fails', async () => {
    await put(NAME, recordText());
    const [record] = await listRuntimeRecords(folder);
    const [portmap, ...others] = othersOf(record!);
    expect(others.map(({ type }) => type)).toEqual(['bandwidth']);
    const call = { command: 'ADD', record: record!, plugin: portmap!, binDir: folder } as const;
    await plugin('portmap', `env | grep ^CNI_ | sort > ${folder}/env; cat > ${folder}/input`);
    expect(await callPlugin(call, never)).toBeUndefined();
    expect((await readFile(join(folder, 'env'), 'utf8')).trim().split('\n')).toEqual([
      'CNI_ARGS=K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web',
      'CNI_COMMAND=ADD',
      'CNI_CONTAINERID=c1',
      'CNI_IFNAME=eth0',
      'CNI_NETNS=/run/netns/cni-1',
      `CNI_PATH=${folder}`,
    ]);
    expect(JSON.parse(await readFile(join(folder, 'input'), 'utf8'))).toEqual({
      type: 'portmap',
      snat: true,
      capabilities: { portMappings: true },
      name: 'k8s-pod-network',
      cniVersion: '1.0.0',
      runtimeConfig: { portMappings: [{ HostPort: 8081, ContainerPort: 80, Protocol: 'tcp', HostIP: '' }] },
      prevResult: { ips: [{ address: '10.0.0.1/32' }, { address: 'fd00::1/128' }] },
    });
    await plugin('portmap', `echo warning >&2; printf '{\\n"code":7,\\n"msg":"no chain"}'; exit 1`);
    expect(await callPlugin(call, never)).toBe('portmap: no chain');
    await plugin('portmap', `echo "iptables: not found" >&2; exit 1`);
    expect(await callPlugin(call, never)).toBe('portmap: iptables: not found');
  });

  it('ends with the DEL of each plugin, last one first, also after one that fails or is missing', async () => {
    await put(NAME, recordText());
    const [record] = await listRuntimeRecords(folder);
    const noting = `echo "$CNI_COMMAND $(basename $0)" >> ${folder}/calls`;
    await plugin('bandwidth', `${noting}; echo '{"code":7,"msg":"no such device"}'; exit 1`);
    await plugin('portmap', noting);
    expect(await endChain(record!, folder, never)).toEqual(['bandwidth: no such device']);
    expect(await readFile(join(folder, 'calls'), 'utf8')).toBe('DEL bandwidth\nDEL portmap\n');
    await rm(join(folder, 'portmap'));
    expect(await endChain(record!, folder, never)).toEqual([
      'bandwidth: no such device',
      expect.stringMatching(/^portmap: .*(ENOENT|No such file)/),
    ]);
  });
});
