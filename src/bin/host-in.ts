import { randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf } from '../base/errors.ts';
import { bootId } from '../dataplane/linux/boot-id.ts';
import type { Host } from '../ipam/node/run-id.ts';
import { readText } from './read-text.ts';
import { stateDir } from './registration.ts';

/**
 * Returns the identity of this machine and its last boot. The machine is identified by its machine id and an id in the
 * state folder, which contains the journals. A copy of only one of them, or a reinstalled system, is another machine.
 */
export function hostIn(env: NodeJS.ProcessEnv): Host {
  return {
    machine: `${machineId()} ${folderId(stateDir(env))}`,
    boot: bootId(),
  };
}

/** An image has no id of its own: in a container, the id is that of the host, whose process 1 a pod with hostPID sees. */
function machineId(): string {
  const own = readText('/etc/machine-id') ?? '';
  return own === '' ? (readHostText('/proc/1/root/etc/machine-id') ?? '') : own;
}

/** Returns undefined where process 1 is not accessible. */
function readHostText(path: string): string | undefined {
  try {
    return readText(path);
  } catch (cause) {
    if (['EACCES', 'EPERM'].includes(errnoOf(cause) ?? '')) return undefined;
    throw cause;
  }
}

/** On a full disk without an id, the folder has another one for each process. */
function folderId(folder: string): string {
  mkdirSync(folder, { recursive: true });
  try {
    return idInFile(join(folder, 'folder-id'));
  } catch (cause) {
    if (!['ENOSPC', 'EDQUOT', 'EROFS'].includes(errnoOf(cause) ?? '')) throw cause;
    return randomUUID();
  }
}

/** Returns the id in the file, which the first process that asks makes at random. */
export function idInFile(path: string): string {
  const known = readText(path);
  if (known !== undefined) return known;
  const draft = `${path}.${randomUUID()}`;
  writeFileSync(draft, `${randomUUID()}\n`, { mode: 0o600, flush: true });
  try {
    linkSync(draft, path);
  } catch (cause) {
    if (errnoOf(cause) !== 'EEXIST') throw cause;
  } finally {
    rmSync(draft, { force: true });
  }
  return readText(path) ?? '';
}
