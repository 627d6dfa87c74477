import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errnoOf } from './errors.ts';
import type { LogSink } from './log.ts';

export interface LogFileLimits {
  /** Size at which the file is rotated. */
  readonly maxSizeBytes: number;
  /** Rotated files older than this are removed. */
  readonly maxAgeMs: number;
  /** Rotated files kept. */
  readonly maxCount: number;
}

/** A rotation takes milliseconds, so a lock this old belongs to a process that was killed. */
const LOCK_STALE_MS = 10_000;

/**
 * Appends lines to a file that many processes write at once: each line is one O_APPEND write, and rotation is a rename
 * under a lock file. Rotated files are named `<file>.<UTC time>`. Never throws: a log that cannot be written is lost.
 */
export function logFile(path: string, limits: LogFileLimits, now: () => number): LogSink {
  return (line) => {
    try {
      append(path, line, { limits, now });
    } catch (cause) {
      if (errnoOf(cause) === undefined) throw cause;
    }
  };
}

interface Rotation {
  readonly limits: LogFileLimits;
  readonly now: () => number;
}

function append(path: string, line: string, rotation: Rotation): void {
  const bytes = Buffer.from(line);
  const fd = openLog(path);
  try {
    if (fstatSync(fd).size + bytes.length <= rotation.limits.maxSizeBytes || !rotate(path, bytes.length, rotation)) {
      writeSync(fd, bytes);
      return;
    }
  } finally {
    closeSync(fd);
  }
  const fresh = openLog(path);
  try {
    writeSync(fresh, bytes);
  } finally {
    closeSync(fresh);
  }
}

function openLog(path: string): number {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT;
  try {
    return openSync(path, flags, 0o600);
  } catch (cause) {
    if (errnoOf(cause) !== 'ENOENT') throw cause;
    makeFolder(dirname(path));
    return openSync(path, flags, 0o600);
  }
}

/** Creates the folder and its parents. Node's recursive mkdir hangs where a file system refuses folders with ENOENT (/proc). */
function makeFolder(path: string, hasParent = false): void {
  try {
    mkdirSync(path, { mode: 0o755 });
  } catch (cause) {
    if (errnoOf(cause) === 'EEXIST') return;
    if (errnoOf(cause) !== 'ENOENT' || hasParent) throw cause;
    makeFolder(dirname(path));
    makeFolder(path, true);
  }
}

/** Returns whether the file is rotated now; false when another process has the lock, and the line goes to the old file. */
function rotate(path: string, incomingBytes: number, { limits, now }: Rotation): boolean {
  const lock = `${path}.lock`;
  if (!takeLock(lock, now)) return false;
  try {
    // Another process may have rotated between the size check and the lock.
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    if (size > 0 && size + incomingBytes > limits.maxSizeBytes) {
      renameSync(path, freeName(path, now()));
      prune(path, limits, now());
    }
    return true;
  } finally {
    rmSync(lock, { force: true });
  }
}

function takeLock(lock: string, now: () => number): boolean {
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY;
  try {
    closeSync(openSync(lock, flags, 0o600));
    return true;
  } catch (cause) {
    if (errnoOf(cause) !== 'EEXIST') throw cause;
  }
  const takenMs = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? now();
  if (now() - takenMs > LOCK_STALE_MS) rmSync(lock, { force: true });
  return false;
}

function freeName(path: string, nowMs: number): string {
  for (let ms = nowMs; ; ms += 1) {
    const name = `${path}.${new Date(ms).toISOString().replaceAll(/[-:]/g, '')}`;
    if (statSync(name, { throwIfNoEntry: false }) === undefined) return name;
  }
}

function prune(path: string, { maxAgeMs, maxCount }: LogFileLimits, nowMs: number): void {
  const prefix = `${basename(path)}.`;
  const rotated = readdirSync(dirname(path))
    .filter((name) => name.startsWith(prefix) && /^\d{8}T\d{6}\.\d{3}Z$/.test(name.slice(prefix.length)))
    .sort()
    .reverse()
    .map((name) => join(dirname(path), name));
  for (const [index, file] of rotated.entries()) {
    const changedMs = statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? nowMs;
    if (index >= maxCount || nowMs - changedMs > maxAgeMs) rmSync(file, { force: true });
  }
}
