import { errnoOf } from './errors.ts';

/** Reports whether a system call failed because the path does not exist, or because part of it is not a folder. */
export function isMissing(cause: unknown): boolean {
  const errno = errnoOf(cause);
  return errno === 'ENOENT' || errno === 'ENOTDIR';
}

/** Returns undefined when `cause` says that the path does not exist; for use in `catch`. @throws every other cause */
export function ignoreMissing(cause: unknown): undefined {
  if (!isMissing(cause)) throw cause;
}
