import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../../src/base/errors.ts';
import { removeAtEnd } from './janitor.ts';
import { until } from './until.ts';

const CGROUPS = '/sys/fs/cgroup';

/** A parent for the cgroups of a runtime; at the end it goes, with whatever still runs in or below it. */
export function newCgroup(): AsyncDisposable & { readonly name: string } {
  const name = `netplug-test-${randomBytes(5).toString('hex')}`;
  removeAtEnd('cgroup', name);
  return { name, [Symbol.asyncDispose]: async () => removeCgroups(name) };
}

/** Ends what still runs in the cgroups of that name and removes them. */
async function removeCgroups(name: string): Promise<void> {
  // Version 2 has one hierarchy, version 1 a folder for each.
  for (const hierarchy of ['.', ...(await readdir(CGROUPS))]) await removeCgroup(join(CGROUPS, hierarchy, name));
}

/** Ends what still runs in the cgroup and removes it, bottom-up. */
async function removeCgroup(folder: string): Promise<void> {
  if (!existsSync(folder)) return;
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) await removeCgroup(join(folder, entry.name));
  }
  // The kernel lets go of a cgroup when the last of its dead processes is buried.
  await until(async () => {
    for (const pid of await processesIn(folder)) killIfThere(pid);
    return rmdir(folder).then(
      () => true,
      () => !existsSync(folder),
    );
  }, `the cgroup ${folder} can be removed`);
}

async function processesIn(cgroup: string): Promise<number[]> {
  const text = await readFile(join(cgroup, 'cgroup.procs'), 'utf8').catch(() => '');
  return text
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 0);
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (cause) {
    if (errnoOf(cause) !== 'ESRCH') throw cause;
  }
}
