import { ownValue } from '../base/own-value.ts';
import { errnoOf, NetplugError } from '../base/errors.ts';

const ROOM = 'Free disk space; a command is then to be repeated';
const REASONS: Readonly<Record<string, readonly [reason: string, hint: string]>> = {
  ENOSPC: ['no space left on device', ROOM],
  EDQUOT: ['disk quota exceeded', ROOM],
  EROFS: ['the file system is read-only', 'Mount it read-write, or choose another folder'],
  EACCES: ['permission is denied', 'Run the command as root'],
  EPERM: ['permission is denied', 'Run the command as root; the file may be immutable'],
  ENOENT: ['it does not exist', 'Make sure that the folder exists'],
  ENOTDIR: ['a part of the path is not a folder', 'Choose another folder'],
  EISDIR: ['a folder is in the way', 'Remove the folder, or choose another one'],
  EEXIST: ['a file is in the way', 'Remove the file, or choose another folder'],
  EBUSY: ['it is in use', 'Find out what uses it, such as a mount'],
};

/** Runs a file operation. @throws install/failed with a reason and a hint when the system call fails */
export async function onFile<T>(verb: 'write' | 'read' | 'remove', path: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (cause) {
    const errno = errnoOf(cause);
    // An abort has a code too, but already carries its own message.
    if (errno === undefined || cause instanceof NetplugError) throw cause;
    const [reason, hint] = ownValue(REASONS, errno) ?? [errno, 'Check this path'];
    throw new NetplugError('install/failed', `Cannot ${verb} "${path}": ${reason}`, { hint, facts: { path }, cause });
  }
}
