import { mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, machineIn, type Ran } from '../../../test/support/ctl.ts';
import { MemoryHostNetwork } from '../../../test/support/memory/memory-host-network.ts';
import { MemoryKernel } from '../../../test/support/memory/memory-kernel.ts';
import { MemoryPolicyFilter } from '../../../test/support/memory/memory-policy-filter.ts';

const PID = 4711;

let folder: string;
let sent: string[];
/** Request or signal that makes the agent release its lock. */
let endsBy: 'asking' | 'SIGTERM' | 'SIGKILL' | 'nothing';
let isLocked: boolean;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-end-agent-'));
  [sent, isLocked, endsBy] = [[], true, 'asking'];
  for (const name of ['state', 'run', `proc/${String(PID)}/fd`]) await mkdir(join(folder, name), { recursive: true });
  const { agentLock } = machineIn(folder);
  await writeFile(agentLock, '');
  const { ino } = await stat(agentLock);
  await writeFile(join(folder, 'proc/locks'), `1: FLOCK  ADVISORY  WRITE ${String(PID)} 00:2a:${String(ino)} 0 EOF\n`);
  await symlink(agentLock, join(folder, `proc/${String(PID)}/fd/7`));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const execute = async (program: string): Promise<void> => symlink(program, join(folder, `proc/${String(PID)}/exe`));

async function purge(...flags: string[]): Promise<Ran> {
  return callCtl(['node', 'uninstall', '--purge', ...flags], {
    machine: machineIn(folder),
    host: { uid: 0, procDir: join(folder, 'proc') },
    openKernel: () => new MemoryKernel(),
    openHostNetwork: () => new MemoryHostNetwork(),
    openFilter: () => new MemoryPolicyFilter(),
    tryLockFile: () => !isLocked,
    askAgent: async (_, { kind }) => {
      sent.push(kind);
      if (endsBy !== 'asking') throw new Error('it does not answer');
      isLocked = false;
      return Promise.resolve('');
    },
    sendSignal: (pid, signal) => {
      sent.push(`${signal} ${String(pid)}`);
      if (signal === endsBy) isLocked = false;
    },
  });
}

describe('netplugctl node uninstall --purge: the agent of the node', () => {
  it.each([
    ['asking', ['shut-down']],
    ['SIGTERM', ['shut-down', 'SIGTERM 4711']],
    ['SIGKILL', ['shut-down', 'SIGTERM 4711', 'SIGKILL 4711']],
  ] as const)('is stopped by %s without further escalation', async (how, expected) => {
    endsBy = how;
    await execute('/opt/netplug/netplug-agent (deleted)');
    expect((await purge()).out).toContain('agent "process 4711" stopped\n');
    expect(sent).toEqual(expected);
  });

  it('is only named by --dry-run', async () => {
    await execute('/opt/netplug/netplug-agent');
    expect((await purge('--dry-run')).out).toContain('agent "process 4711" would be stopped\n');
    expect([sent, isLocked]).toEqual([[], true]);
  });

  it.each(['/usr/bin/node', '/usr/sbin/nginx'])('is not a lock holder that executes %s', async (program) => {
    endsBy = 'SIGTERM';
    await execute(program);
    const { status, err } = await purge();
    expect({ status, err }).toEqual({ status: 69, err: expect.stringContaining(`process 4711 ("${program}")`) });
    expect(sent).toEqual(['shut-down']);
  });

  it('is not a process that has another file with the same inode number open', async () => {
    endsBy = 'SIGTERM';
    await execute('/opt/netplug/netplug-agent');
    await rm(join(folder, `proc/${String(PID)}/fd/7`));
    expect(await purge()).toMatchObject({ status: 69, err: expect.stringContaining('not visible from here') });
    expect(sent).toEqual(['shut-down']);
  });

  it('blocks the purge when it does not exit', async () => {
    endsBy = 'nothing';
    await execute('/opt/netplug/netplug-agent');
    expect(await purge()).toMatchObject({ status: 69, out: '', err: expect.stringContaining('it does not exit') });
    expect(await stat(join(folder, 'state'))).toBeDefined();
  });
});
