import { readFileSync } from 'node:fs';
import type { getRawAsset, isSea } from 'node:sea';

/** Where Bun shows the files of an executable. */
const FILES_IN_BUN = '/$bunfs/root';

/** Reports whether this is an executable of netplug, and not a script that a runtime runs. */
export function isExecutable(): boolean {
  return isBun() || sea()?.isSea() === true;
}

/** Returns a file that the build has put into this executable; undefined when this is none. */
export function embeddedFile(name: string): Buffer | undefined {
  if (isBun()) return readFileSync(`${FILES_IN_BUN}/${name}`);
  const found = sea();
  return found?.isSea() === true ? Buffer.from(found.getRawAsset(name)) : undefined;
}

/** Bun runs nothing but executables of netplug. */
function isBun(): boolean {
  return process.versions['bun'] !== undefined;
}

/** Bun has no such module. */
function sea(): { readonly getRawAsset: typeof getRawAsset; readonly isSea: typeof isSea } | undefined {
  return process.getBuiltinModule('node:sea');
}
