import { errnoOf, NetplugError } from '../base/errors.ts';

const ROOM = 'Make room, then run the same command again';
const REASONS: Readonly<Record<string, readonly [reason: string, hint: string]>> = {
  ENOSPC: ['there is no space left', ROOM],
  EDQUOT: ['the quota of the disk is used up', ROOM],
  EROFS: ['the file system is read-only', 'Mount it writable, or name another folder'],
  EACCES: ['permission is denied', 'Run the tool as root'],
  EPERM: ['permission is denied', 'Run the tool as root; the file may be immutable'],
  ENOENT: ['it is missing', 'Make sure that the folder exists'],
  ENOTDIR: ['a part of the path is no folder', 'Name another folder'],
  EISDIR: ['a folder is in the way', 'Remove the folder, or name another one'],
  EEXIST: ['a file is in the way', 'Remove the file, or name another folder'],
  EBUSY: ['it is in use', 'Find out what uses it, such as a mount'],
};

/** Does something to a file or folder of the node. @throws install/failed for whatever the system refuses */
export async function onFile<T>(verb: 'write' | 'read' | 'remove', path: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (cause) {
    const errno = errnoOf(cause);
    // An aborted command has a code too, but says itself what happened.
    if (errno === undefined || cause instanceof NetplugError) throw cause;
    const [reason, hint] = REASONS[errno] ?? [errno, 'See what is special about this path'];
    throw new NetplugError('install/failed', `Cannot ${verb} "${path}": ${reason}`, { hint, facts: { path }, cause });
  }
}
