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
    machine: `${readText('/etc/machine-id') ?? ''} ${folderId(stateDir(env))}`,
    boot: bootId(),
  };
}

function folderId(folder: string): string {
  const path = join(folder, 'folder-id');
  const known = readText(path);
  if (known !== undefined) return known;
  mkdirSync(folder, { recursive: true });
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
