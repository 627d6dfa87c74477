import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf } from '../base/errors.ts';
import type { InstalledList } from '../cni/installed-list.ts';
import { isJsonObject } from '../cni/result.ts';
import { disablesGc } from '../config/runtime-input.ts';

/** Reads a network list in the runtime's configuration folder; undefined without one. */
export function readInstalledList(folder: string, network: string): InstalledList | undefined {
  for (const file of namesIn(folder)
    .filter((name) => name.endsWith('.conflist'))
    .sort()) {
    const list = tryRead(join(folder, file));
    if (!isJsonObject(list) || list['name'] !== network || !Array.isArray(list['plugins'])) continue;
    const plugins = list['plugins'].flatMap((entry: unknown) => (isJsonObject(entry) ? String(entry['type']) : []));
    return { plugins, disablesGc: disablesGc(list) };
  }
  return undefined;
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (cause) {
    if (errnoOf(cause) === undefined) throw cause;
    return [];
  }
}

/** Returns undefined for a file that is not JSON or was removed in the meantime. */
function tryRead(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    if (errnoOf(cause) === undefined && !(cause instanceof SyntaxError)) throw cause;
    return undefined;
  }
}
