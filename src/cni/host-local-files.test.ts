import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { formatAddress } from '../net/address.ts';
import { hostLocalFolder, listHostLocalFiles, takenAddresses } from './host-local-files.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'host-local-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

describe('the folder of host-local', () => {
  it.each([
    [{ name: 'net' }, '/var/lib/cni/networks/net'],
    [{ name: 'net', ipam: { dataDir: '/run/addresses' } }, '/run/addresses/net'],
    [{ name: '../net' }, undefined],
    [{ name: 'net', ipam: { dataDir: 'addresses' } }, undefined],
    [{}, undefined],
  ])('of %j is %s', (conf, expected) => {
    expect(hostLocalFolder(conf)).toBe(expected);
  });

  it('names attachments only in files named like an address, of two lines that can name one', async () => {
    const files = {
      '10.0.0.2': 'c1\r\neth0',
      'fd00::2': 'c2\neth0\n',
      '10.0.0.3': '',
      '10.0.0.4': 'c3',
      '10.0.0.5': '../../c4\r\neth0',
      '10.0.0.6': 'c5\r\neth0\r\nmore',
      'last_reserved_ip.0': '10.0.0.2',
      lock: '',
    };
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    await symlink(join(folder, '10.0.0.2'), join(folder, '10.0.0.7'));
    const found = await listHostLocalFiles(folder);
    expect(found.map(({ address, containerId, ifName }) => [formatAddress(address), containerId, ifName])).toEqual([
      ['10.0.0.2', 'c1', 'eth0'],
      ['fd00::2', 'c2', 'eth0'],
    ]);
    expect((await takenAddresses(folder)).map(formatAddress)).toHaveLength(7);
  });

  it('is empty when it does not exist', async () => {
    expect(await listHostLocalFiles(join(folder, 'none'))).toEqual([]);
  });
});
