import { describe, expect, it } from 'vitest';
import { expectEachCheck } from '../../../../test/support/checks.ts';
import { FILE_CHECKS } from './file-checks.ts';
import type { FileFacts, Folder, PrivateFile } from './file-facts.ts';
import { mountOf, readMounts } from '../../../install/host/mounts.ts';

const GIB = 1024 ** 3;
const folder = (path: string, more: Partial<NonNullable<Folder['state']>> = {}): Folder => ({
  path,
  what: 'state',
  state: {
    isFolder: true,
    mode: 0o755,
    uid: 0,
    isWritable: true,
    options: ['rw'],
    freeBytes: 50 * GIB,
    totalBytes: 100 * GIB,
    freeFiles: 1000,
    ...more,
  },
});
const secret: PrivateFile = { path: '/k', what: 'private key', mode: 0o600, uid: 0 };
const socket: PrivateFile = { path: '/s', what: 'socket of the agent', mode: 0o600, uid: 0 };
const SOUND: FileFacts = {
  owners: [0],
  secrets: [secret],
  socket,
  unreadable: [],
  state: folder('/var/lib/netplug'),
  run: folder('/run/netplug'),
  log: folder('/var/log/netplug/cni'),
  bins: [folder('/opt/cni/bin')],
};

describe('doctor checks of files', () => {
  expectEachCheck(FILE_CHECKS, SOUND, {
    unreadable: { unreadable: [{ path: '/etc/kubeconfig', reason: 'ENOENT' }] },
    exposed: { secrets: [{ ...secret, mode: 0o640 }] },
    owner: { secrets: [{ ...secret, uid: 1000 }] },
    'socket-mode': { socket: { ...socket, mode: 0o666 } },
    'open-folder': { run: folder('/run/netplug', { mode: 0o777 }) },
    'not-writable': { state: folder('/var/lib/netplug', { isWritable: false, options: ['ro'] }) },
    'no-log': { log: folder('/var/log/netplug/cni', { isFolder: false }) },
    'disk-full': { state: folder('/var/lib/netplug', { freeFiles: 0 }) },
    'disk-low': { log: folder('/var/log', { freeBytes: GIB / 2 }) },
    'no-exec': { bins: [folder('/opt/cni/bin', { options: ['rw', 'noexec'] })] },
  });
});

describe('mounts', () => {
  it('are found by the longest mount point around a path; a later mount hides an earlier one', () => {
    const mounts = readMounts(
      'a / ext4 rw 0 0\nb /var ext4 rw,noexec 0 0\nc /var/my\\040dir tmpfs ro 0 0\nd /var tmpfs rw,nodev 0 0\n',
    );
    expect(mountOf(mounts, '/var/lib')?.options).toEqual(['rw', 'nodev']);
    expect(mountOf(mounts, '/variety')?.folder).toBe('/');
    expect(mountOf(mounts, '/var/my dir/x')?.options).toEqual(['ro']);
  });
});
