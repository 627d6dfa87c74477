import { lstat, readdir, rm, rmdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errnoOf, NetplugError } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { forEachLimit } from '../../../base/for-each-limit.ts';
import type { Mode } from '../../../base/mode.ts';
import { stopAgent } from '../../../install/host/stop-agent.ts';
import { stopStandaloneServer } from '../../../install/host/stop-standalone-server.ts';
import { chainedParts } from '../../../install/host/chained-parts.ts';
import { endChain } from '../../../install/host/chained-plugins.ts';
import { networkParts } from '../../../install/host/network-parts.ts';
import { removeParts } from '../../../install/host/part.ts';
import { podLinksPart } from '../../../install/host/pod-links.ts';
import { listRuntimeRecords, podOf, type RuntimeRecord } from '../../../install/host/runtime-records.ts';
import { settingsPart } from '../../../install/host/settings-part.ts';
import { PASSWORD_FOLDER } from '../../../model/spec-types.ts';
import type { Context } from '../ports.ts';
import { reportError } from '../../../base/report-error.ts';
import { onFile } from '../../../install/on-file.ts';
import { REMOVED, type Report } from './install-report.ts';
import { releaseNode, type RegisteredNode } from './release-node.ts';

/** Folders that Kubernetes makes on the host for files of users, the inner one first. */
const SETTINGS_FOLDERS = [PASSWORD_FOLDER, dirname(PASSWORD_FOLDER)];
/** Time in which calls of chained plugins may begin. Each ends within 10 s. */
const CHAINS_MS = 60_000;
const CHAINS_AT_ONCE = 4;

export interface PurgeOptions {
  readonly mode: Mode;
  /** Folder of the plugins. */
  readonly binDir: string;
  /** The node and its datastore. */
  readonly registration: RegisteredNode;
  /** Removes the installed files. Called last, because reaching the datastore may need them. */
  readonly removeFiles: () => Promise<void>;
}

/**
 * Removes everything that plugin and agent put on this host. Stops the agent first, because it would recreate the rest.
 * Reports failures and continues; after a failure keeps the folders, which a repetition needs. Returns whether nothing
 * is left. @throws resource/in-use when the agent, or the server of standalone calls, cannot be stopped
 */
export async function purge(
  context: Context,
  { mode, binDir, registration, removeFiles }: PurgeOptions,
  report: Report,
): Promise<boolean> {
  const { ports } = context;
  const onStopped =
    (kind: 'agent' | 'server') =>
    (subject: string): void =>
      report.step({ kind, subject, done: mode === 'dry-run' ? 'would be stopped' : 'stopped' });
  await using _noOther = await stopAgent(context, { mode, onStopped: onStopped('agent') });
  const stopServer = async (): Promise<void> => stopStandaloneServer(context, { mode, onStopped: onStopped('server') });
  await stopServer();
  const attached = await listRuntimeRecords(ports.machine.resultsDir);
  const linked = ports.openKernel().listHostLinks();
  // Before the links of the pods, whose plugins these are.
  await endChains(context, { mode, binDir, attached }, report);
  // Pods first, so that none of their packets leaves the node untranslated.
  const parts = [
    podLinksPart(ports),
    ...chainedParts(ports, [...attached, ...linked.flatMap(({ owner }) => owner ?? [])]),
    ...networkParts(ports),
    settingsPart(ports.openHostNetwork()),
  ];
  const isClean = await removeParts(context, parts, {
    mode,
    report: {
      onGone: (kind, subject) => {
        report.step({ kind, subject, done: REMOVED[mode] });
      },
      onLeft: (kind, { subject, reason }) => {
        report.warn(`${kind} "${subject}" was not removed: ${reason}`);
      },
    },
  });
  if (isClean) await releaseNode(context, { mode, registration }, report);
  await removeFiles();
  // Until its files were gone, a call of the runtime may have started another one.
  if (mode === 'apply') await stopServer();
  if (!isClean) {
    report.warn('the folders of netplug are kept, so that the command can be repeated');
    return false;
  }
  if (mode === 'apply' && (await isThere(ports.machine.socketPath))) {
    reportError(context.io, startedAgain());
    return false;
  }
  return await removeFolders(context, { mode, report });
}

/**
 * Lets the other plugins of the conflist remove what they made. What one of them leaves keeps nothing else from being removed.
 * Removes the runtime's record of an interface after success, as the runtime would, which calls no DEL without the conflist.
 */
async function endChains(
  { ports: { clock }, signal }: Context,
  { mode, binDir, attached }: Pick<PurgeOptions, 'mode' | 'binDir'> & { readonly attached: readonly RuntimeRecord[] },
  report: Report,
): Promise<void> {
  const untilMs = clock.monotonic() + CHAINS_MS;
  await forEachLimit(attached, CHAINS_AT_ONCE, async (each) => {
    const pod = podOf(each);
    const subject = `${each.containerId} ${each.ifName}${pod === undefined ? '' : ` of pod ${pod}`}`;
    const isLate = clock.monotonic() >= untilMs;
    const failures = isLate ? ['not called, because other calls took too long'] : await end(each);
    if (failures.length === 0) report.step({ kind: 'chain', subject, done: REMOVED[mode] });
    else report.warn(`DEL of chained plugins failed for "${subject}": ${failures.join('; ')}`);
  });

  async function end(each: RuntimeRecord): Promise<readonly string[]> {
    if (mode === 'dry-run') return [];
    const failures = await endChain(each, binDir, signal);
    if (failures.length === 0) await rm(each.path, { force: true });
    return failures;
  }
}

async function removeFolders(
  context: Context,
  { mode, report }: { readonly mode: Mode; readonly report: Report },
): Promise<boolean> {
  let isComplete = true;
  await removeSettingsFolders(context, { mode, report });
  const { stateDir, runDir, logDir } = context.ports.machine;
  // The state folder last, because a repetition needs its records.
  for (const folder of [logDir, runDir, stateDir]) {
    context.signal.throwIfAborted();
    if (mode === 'apply') isComplete = (await removeFolder(folder, report)) && isComplete;
    else if (await isThere(folder)) report.step({ kind: 'folder', subject: folder, done: REMOVED[mode] });
  }
  return isComplete;
}

/** What users have put there stays. In a container, the root of process 1 leads to the folders of the host. */
async function removeSettingsFolders(
  { ports }: Context,
  { mode, report }: { readonly mode: Mode; readonly report: Report },
): Promise<void> {
  const gone = new Set<string>();
  for (const folder of SETTINGS_FOLDERS) {
    const path = join(ports.host.procDir, '1/root', folder);
    const names = await readdir(path).catch(() => undefined);
    if (names === undefined || names.some((name) => !gone.has(join(folder, name)))) continue;
    if (mode === 'apply') await onFile('remove', path, async () => rmdir(path));
    gone.add(folder);
    report.step({ kind: 'folder', subject: folder, done: REMOVED[mode] });
  }
}

function startedAgain(): NetplugError {
  return new NetplugError(
    'resource/in-use',
    'Cannot finish the purge: netplug-agent was started again in the meantime',
    {
      hint: 'Disable its service or remove its pod, then repeat the command',
    },
  );
}

/** Reports whether there is a file or folder of that path. */
export async function isThere(path: string): Promise<boolean> {
  return onFile('read', path, async () => (await lstat(path).catch(ignoreMissing)) !== undefined);
}

/** Removes a folder; a mount point is only emptied. */
async function removeFolder(path: string, report: Report): Promise<boolean> {
  return onFile('remove', path, async () => {
    const stat = await lstat(path).catch(ignoreMissing);
    if (stat === undefined) return true;
    if (!stat.isDirectory() || !basename(path).includes('netplug')) {
      // A wrong setting must not delete files of other programs.
      report.warn(`"${path}" was not removed: it is not a folder with "netplug" in its name`);
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
