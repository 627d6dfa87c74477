import { type FileHandle, open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { NetplugError } from '../../base/errors.ts';
import { ignoreMissing } from '../../base/missing-file.ts';
import type { Mode } from '../../base/mode.ts';
import type { HostContext } from './host-ports.ts';
import { findOpener, isLockedWithin, isNetplug, type LockHolder } from './lock-holder.ts';

/** The server first completes its calls. */
const ENDINGS = [
  ['SIGTERM', 20_000],
  ['SIGKILL', 5000],
] as const;

/**
 * Stops the server of standalone calls, which a call without an agent leaves for some seconds, and removes what a killed
 * one has left. @throws resource/in-use when it cannot be stopped
 */
export async function stopStandaloneServer(
  context: HostContext,
  { mode, onStopped }: { readonly mode: Mode; readonly onStopped: (what: string) => void },
): Promise<void> {
  const { ports } = context;
  const folder = dirname(ports.machine.socketPath);
  const lock = join(folder, 'standalone.lock');
  await using file = await open(lock, 'r+').catch(ignoreMissing);
  if (file === undefined) return;
  if (!ports.tryLockFile(file.fd)) {
    // The lock was taken by the call that started the server, which has written down whose it is.
    const pid = Number(await file.readFile('utf8'));
    const holder = await findOpener(pid, await file.stat(), ports.host.procDir);
    if (mode === 'apply') await end(context, file, holder);
    onStopped(`process ${String(pid)}`);
  }
  if (mode === 'dry-run') return;
  for (const path of [join(folder, 'standalone.sock'), lock]) await rm(path, { force: true });
}

async function end(context: HostContext, file: FileHandle, holder: LockHolder | undefined): Promise<void> {
  for (const [name, ms] of ENDINGS) {
    if (holder !== undefined) {
      if (!isNetplug(holder)) throw notStopped(`process ${String(holder.pid)} ("${holder.executable}") holds its lock`);
      context.ports.sendSignal(holder.pid, name);
    }
    if (await isLockedWithin(context, file, ms)) return;
  }
  throw notStopped('it does not exit');
}

function notStopped(why: string): NetplugError {
  return new NetplugError('resource/in-use', `Cannot stop the server of standalone calls on this node: ${why}`, {
    hint: 'Stop the process whose id is in standalone.lock, beside the socket of the agent; then repeat the command',
  });
}
