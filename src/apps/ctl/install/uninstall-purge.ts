import { lstat, readdir, rm, rmdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { errnoOf, NetplugError } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import type { Mode } from '../../../base/mode.ts';
import { endAgent } from '../../../install/host/end-agent.ts';
import { networkParts } from '../../../install/host/network-parts.ts';
import { type Part, removeParts } from '../../../install/host/part.ts';
import { podLinksPart } from '../../../install/host/pod-links.ts';
import { settingsPart } from '../../../install/host/settings-part.ts';
import type { Context } from '../ports.ts';
import { reportError } from '../../../base/report-error.ts';
import { onFile } from '../../../install/on-file.ts';
import { REMOVED, type Report } from './install-report.ts';
import { releaseNode, type RegisteredNode } from './release-node.ts';

export interface PurgeOptions {
  readonly mode: Mode;
  /** Where the node is registered, as far as that is known. */
  readonly registration: RegisteredNode;
  /** Removes the installed files that reaching the datastore may need. */
  readonly removeFiles: () => Promise<void>;
}

/**
 * Takes away everything that plugin and agent have put on this host, the agent first: it would make the rest again. What
 * fails is reported and does not keep the rest from going, but for the folders: a second try needs what is in them.
 * Returns whether nothing stays. @throws resource/in-use when the agent cannot be ended
 */
export async function purge(
  context: Context,
  { mode, registration, removeFiles }: PurgeOptions,
  report: Report,
): Promise<boolean> {
  await using _noOther = await endAgent(context, {
    mode,
    onEnded: (subject) => {
      report.step({ kind: 'agent', subject, done: mode === 'rehearse' ? 'would be ended' : 'ended' });
    },
  });
  const isClean = await removeParts(context, partsOf(context), {
    mode,
    report: {
      onGone: (kind, subject) => {
        report.step({ kind, subject, done: REMOVED[mode] });
      },
      onLeft: (kind, { subject, reason }) => {
        report.warn(`${kind} "${subject}" is left: ${reason}`);
      },
    },
  });
  if (isClean) await releaseNode(context, { mode, registration }, report);
  await removeFiles();
  if (!isClean) {
    report.warn('the folders of netplug are left, so that the command can be repeated');
    return false;
  }
  if (mode === 'carry-out' && (await isThere(context.ports.machine.socketPath))) {
    reportError(context.io, startedAgain());
    return false;
  }
  return await removeFolders(context, { mode, report });
}

async function removeFolders(
  context: Context,
  { mode, report }: { readonly mode: Mode; readonly report: Report },
): Promise<boolean> {
  let isComplete = true;
  for (const folder of foldersOf(context)) {
    context.signal.throwIfAborted();
    if (mode === 'carry-out') isComplete = (await removeFolder(folder, report)) && isComplete;
    else if (await isThere(folder)) report.step({ kind: 'folder', subject: folder, done: REMOVED[mode] });
  }
  return isComplete;
}

/** Pods first: whatever comes then, no packet of theirs leaves the node without its translation. */
function partsOf({ ports }: Context): readonly Part[] {
  return [podLinksPart(ports), ...networkParts(ports), settingsPart(ports.openHostNetwork())];
}

/** The one with the records that a second try needs goes last. */
function foldersOf({ ports }: Context): readonly string[] {
  const { stateDir, runDir, logDir } = ports.machine;
  return [logDir, runDir, stateDir];
}

function startedAgain(): NetplugError {
  return new NetplugError('resource/in-use', 'Cannot finish the purge: netplug-agent was started again meanwhile', {
    hint: 'Disable its service or remove its pod, then repeat the command',
  });
}

async function isThere(path: string): Promise<boolean> {
  return onFile('read', path, async () => (await lstat(path).catch(ignoreMissing)) !== undefined);
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
