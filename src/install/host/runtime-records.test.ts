import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CHAIN, recordText } from '../../../test/support/runtime-record.ts';
import { findRuntimeRecord, listRuntimeRecords, podOf } from './runtime-records.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-records-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));
const put = async (containerId: string, text: string): Promise<void> =>
  writeFile(join(folder, `k8s-pod-network-${containerId}-eth0`), text);

describe('the records of a runtime', () => {
  it('are those of netplug, without other networks, and files that are broken, too large or of another name', async () => {
    await put('c1', recordText());
    await put(
      'c2',
      recordText({ containerId: 'c2' }, { ...CHAIN, plugins: [{ type: 'bridge' }, { type: 'portmap' }] }),
    );
    await put('c3', recordText({ containerId: 'c3', kind: 'cniCacheV0' }));
    await put('c4', recordText({ containerId: 'c4', filler: 'x'.repeat(1 << 20) }));
    await put('c5', recordText());
    await put('c6', '{"kind":');
    await put('c7', recordText({ containerId: 'c8' }));
    await symlink(join(folder, 'k8s-pod-network-c7-eth0'), join(folder, 'k8s-pod-network-c8-eth0'));
    expect((await listRuntimeRecords(folder)).map(({ containerId }) => containerId)).toEqual(['c1']);
    expect(await listRuntimeRecords(join(folder, 'missing'))).toEqual([]);
    const attachment = { network: 'k8s-pod-network', containerId: 'c1', ifName: 'eth0' };
    expect(await findRuntimeRecord(folder, attachment)).toMatchObject(attachment);
    expect(await findRuntimeRecord(folder, { ...attachment, network: `x/../${attachment.network}` })).toBeUndefined();
  });

  it('name a pod, unless its name is none', async () => {
    await put('c1', recordText());
    await put(
      'c2',
      recordText({
        containerId: 'c2',
        cniArgs: [
          ['K8S_POD_NAMESPACE', 'shop'],
          ['K8S_POD_NAME', '\u001b[2J'],
        ],
      }),
    );
    await put('c3', recordText({ containerId: 'c3', cniArgs: null }));
    expect((await listRuntimeRecords(folder)).map(podOf)).toEqual(['shop/web', undefined, undefined]);
  });
});
