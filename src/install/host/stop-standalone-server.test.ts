import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, machineIn, type Ran } from '../../../test/support/ctl.ts';
import { MemoryHostNetwork } from '../../../test/support/memory/memory-host-network.ts';
import { MemoryKernel } from '../../../test/support/memory/memory-kernel.ts';
import { MemoryPolicyFilter } from '../../../test/support/memory/memory-policy-filter.ts';

const PID = 4711;

let folder: string;
let lock: string;
let sent: string[];
/** Signal that makes the server release its lock. */
let endsBy: 'SIGTERM' | 'SIGKILL' | 'nothing';
let isLocked: boolean;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-end-server-'));
  [sent, isLocked, endsBy] = [[], true, 'SIGTERM'];
  for (const name of ['state', 'run', `proc/${String(PID)}/fd`]) await mkdir(join(folder, name), { recursive: true });
  lock = join(folder, 'run/standalone.lock');
  await writeFile(lock, `${String(PID)}\n`);
  await writeFile(join(folder, 'run/standalone.sock'), '');
  await symlink(lock, join(folder, `proc/${String(PID)}/fd/4`));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const execute = async (program: string): Promise<void> => symlink(program, join(folder, `proc/${String(PID)}/exe`));
const left = async (): Promise<string[]> => readdir(join(folder, 'run')).catch(() => []);

async function purge(...flags: string[]): Promise<Ran> {
  return callCtl(['node', 'uninstall', '--purge', ...flags], {
    machine: machineIn(folder),
    host: { uid: 0, procDir: join(folder, 'proc') },
    openKernel: () => new MemoryKernel(),
    openHostNetwork: () => new MemoryHostNetwork(),
    openFilter: () => new MemoryPolicyFilter(),
    tryLockFile: () => !isLocked,
    sendSignal: (pid, signal) => {
      sent.push(`${signal} ${String(pid)}`);
      if (signal === endsBy) isLocked = false;
    },
  });
}

describe('netplugctl node uninstall --purge: the server of standalone calls', () => {
  it('is stopped, and its files are removed', async () => {
    await execute('/opt/cni/bin/netplug-standalone (deleted)');
    expect((await purge()).out).toContain('server "process 4711" stopped\n');
    expect(sent).toEqual(['SIGTERM 4711']);
    expect(await left()).toEqual([]);
  });

  it('is not signalled when it has ended, and its files are removed', async () => {
    isLocked = false;
    expect((await purge()).out).not.toContain('server');
    expect(sent).toEqual([]);
    expect(await left()).toEqual([]);
  });

  it('is only named by --dry-run', async () => {
    await execute('/opt/cni/bin/netplug-standalone');
    expect((await purge('--dry-run')).out).toContain('server "process 4711" would be stopped\n');
    expect([sent, await left()]).toEqual([[], ['standalone.lock', 'standalone.sock']]);
  });

  it('is not another program whose process has its id', async () => {
    await execute('/usr/sbin/nginx');
    const { status, err } = await purge();
    expect({ status, err }).toEqual({ status: 69, err: expect.stringContaining('process 4711 ("/usr/sbin/nginx")') });
    expect(sent).toEqual([]);
  });
});
