import { randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf } from '../base/errors.ts';
import { bootId } from '../dataplane/linux/boot-id.ts';
import type { Host } from '../ipam/node/run-id.ts';
import { readText } from './read-text.ts';
import { stateDir } from './registration.ts';

/**
 * This machine and its last boot. The machine is its own id and an id of the state folder, where the journals lie: a
 * copy of either alone is another machine, and so is a system that was installed anew.
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
