import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../test/support/until.ts';
import type { AttachmentRecord } from '../model/attachment-record.ts';
import { parseAddress } from '../net/address.ts';
import { AttachmentFiles } from './attachment-files.ts';

const recordOf = (containerId: string): AttachmentRecord => ({
  attachment: { network: 'my net/ü', containerId, ifName: 'eth0' },
  pod: 'shop/web',
  at: '2026-01-01T00:00:00.000Z',
  addressManager: 'none',
  addresses: [parseAddress('10.0.0.1')],
  floating: [],
  switches: ['ip_addrs_no_ipam'],
});
const [A, B] = [recordOf('a'), recordOf('b')];

describe('attachment records in files', () => {
  let parent: string;
  let folder: string;
  let files: AttachmentFiles;
  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'netplug-records-'));
    folder = join(parent, 'attachments');
    files = new AttachmentFiles(folder);
  });
  afterEach(() => rmSync(parent, { recursive: true }));

  it('are empty when the folder does not exist', async () => {
    expect(await files.list()).toEqual({ records: [], problems: [] });
    expect(await files.find(A.attachment)).toBeUndefined();
    await files.remove(A.attachment);
  });

  it('are kept until they are removed, with access for root only', async () => {
    await files.put(A);
    await files.put(B);
    expect(await files.find(A.attachment)).toEqual(A);
    expect((await new AttachmentFiles(folder).list()).records).toHaveLength(2);
    const modes = [folder, ...readdirSync(folder).map((name) => join(folder, name))].map((path) => statSync(path).mode);
    expect(modes.map((mode) => mode & 0o777)).toEqual([0o700, 0o600, 0o600]);
    await files.remove(A.attachment);
    expect((await files.list()).records).toEqual([B]);
  });

  it('restrict the permissions of an existing folder', async () => {
    await files.put(A);
    chmodSync(folder, 0o755);
    await files.put(B);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  });

  it('are listed without those that are truncated, too large or of another attachment', async () => {
    await files.put(A);
    const [ofA = ''] = readdirSync(folder);
    await files.put(B);
    const ofB = readdirSync(folder).find((name) => name !== ofA) ?? '';
    truncateSync(join(folder, ofA), 20);
    writeFileSync(join(folder, 'large.json'), 'x'.repeat(100_000));
    writeFileSync(join(folder, '.x.netplug-tmp'), 'half');
    // A record under the file name of another attachment.
    copyFileSync(join(folder, ofB), join(folder, `${'0'.repeat(32)}.json`));
    const { records, problems } = await files.list();
    expect(records).toEqual([B]);
    expect(problems).toHaveLength(3);
    expect(await files.find(A.attachment)).toBeUndefined();
  });

  it('notify a watcher when another program writes or removes one', async () => {
    let count = 0;
    using _watch = files.watch(() => (count += 1));
    await new AttachmentFiles(folder).put(A);
    await until(() => count > 0, 'the watcher is notified of the record');
    const before = count;
    await new AttachmentFiles(folder).remove(A.attachment);
    await until(() => count > before, 'the watcher is notified of the removal');
    expect(readdirSync(folder)).toEqual([]);
  });

  it('fail with cni/record-failed when the folder cannot be created', async () => {
    writeFileSync(folder, '');
    await expect(files.put(A)).rejects.toMatchObject({ code: 'cni/record-failed' });
    expect(await files.list()).toEqual({ records: [], problems: [] });
    using _watch = files.watch(() => undefined);
  });
});
