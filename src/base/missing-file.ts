import { errnoOf } from './errors.ts';

/** Whether a system call failed because nothing is at the path, or because a part of the path is no folder. */
export function isMissing(cause: unknown): boolean {
  const errno = errnoOf(cause);
  return errno === 'ENOENT' || errno === 'ENOTDIR';
}

/** For `catch`: undefined when nothing is at the path. @throws every other cause */
export function ignoreMissing(cause: unknown): undefined {
  if (!isMissing(cause)) throw cause;
}
