import { lstat, readdir, rm, rmdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { errnoOf } from '../../base/errors.ts';
import type { HostLink, Kernel } from '../../dataplane/kernel.ts';
import { onFile } from './install-errors.ts';
import type { Report } from './install-report.ts';
import type { Context } from '../ports.ts';
import { reportError } from '../report-error.ts';

/** So many go at once: the kernel takes a group of links away in the time of one, and each waiting one holds a socket. */
const LINKS_AT_ONCE = 64;

/** Removes every interface of netplug with its routes, then the folders of its state; says whether all of it went. */
export async function purge(context: Context, report: Report): Promise<boolean> {
  const { stateDir, runDir, logDir } = context.ports.machine;
  let isComplete = await removeLinks(context, report);
  for (const folder of [stateDir, runDir, logDir]) {
    context.signal.throwIfAborted();
    isComplete = (await removeFolder(folder, report)) && isComplete;
  }
  return isComplete;
}

async function removeLinks({ ports, io, signal }: Context, report: Report): Promise<boolean> {
  const kernel = ports.openKernel();
  const links = kernel.listHostLinks();
  let isComplete = true;
  for (let start = 0; start < links.length; start += LINKS_AT_ONCE) {
    signal.throwIfAborted();
    const round = links.slice(start, start + LINKS_AT_ONCE);
    const outcomes = await Promise.allSettled(round.map(async (link) => removeLink(kernel, link)));
    for (const [index, outcome] of outcomes.entries()) {
      const subject = round[index]?.name ?? '';
      if (outcome.status === 'fulfilled' && outcome.value) {
        report.step({ kind: 'interface', subject, done: 'removed' });
        continue;
      }
      isComplete = false;
      if (outcome.status === 'rejected') reportError(io, outcome.reason, `interface "${subject}"`);
      else report.warn(`interface "${subject}" is left: its alias is not one of netplug`);
    }
  }
  return isComplete;
}

/** Without an owner, only a link that nobody came to own is taken; one that is gone meanwhile counts as removed. */
async function removeLink(kernel: Kernel, { name, owner }: HostLink): Promise<boolean> {
  if (await kernel.remove(name, owner ?? { containerId: '', ifName: '' })) return true;
  return !kernel.listHostLinks().some((link) => link.name === name);
}

/** A folder that somebody mounted there stays, empty. */
async function removeFolder(path: string, report: Report): Promise<boolean> {
  return onFile('remove', path, async () => {
    const stat = await lstat(path).catch(ignoreMissing);
    if (stat === undefined) return true;
    if (!stat.isDirectory() || !basename(path).includes('netplug')) {
      // A setting gone wrong must not cost somebody else's files.
      report.warn(`"${path}" is left: it is no folder whose name has "netplug" in it`);
      return false;
    }
    for (const name of await readdir(path)) await rm(join(path, name), { recursive: true, force: true });
    try {
      await rmdir(path);
      report.step({ kind: 'folder', subject: path, done: 'removed' });
    } catch (cause) {
      if (errnoOf(cause) !== 'EBUSY') throw cause;
      report.step({ kind: 'folder', subject: path, done: 'emptied' });
    }
    return true;
  });
}

function ignoreMissing(cause: unknown): undefined {
  if (errnoOf(cause) !== 'ENOENT') throw cause;
}
