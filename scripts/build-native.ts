// Compiles native/netns.c into build/netns.node; does nothing when that is newer than its source and this script.
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const root = join(import.meta.dirname, '..');
const source = join(root, 'native/netns.c');
const output = join(root, 'build/netns.node');

/** Returns the path of the compiled addon. */
export function buildNative(): string {
  const newest = Math.max(modifiedMs(source), modifiedMs(import.meta.filename));
  if (modifiedMs(output) > newest) return output;
  // The runtime's npm package ships no headers; those of the stable interface come on their own.
  const headers = join(dirname(createRequire(import.meta.url).resolve('node-api-headers/package.json')), 'include');
  mkdirSync(dirname(output), { recursive: true });
  // Renamed into place, so that a process which has the old one loaded or two builds at once are not disturbed.
  const draft = `${output}.${String(process.pid)}`;
  const warnings = ['-Wall', '-Wextra', '-Werror'];
  const hardening = ['-fstack-protector-strong', '-D_FORTIFY_SOURCE=2', '-Wl,-z,relro,-z,now'];
  const flags = ['-std=gnu11', '-O2', '-fPIC', '-shared', '-s', '-DNAPI_VERSION=8', ...warnings, ...hardening];
  execFileSync('gcc', [...flags, `-I${headers}`, '-o', draft, source], { stdio: 'inherit' });
  renameSync(draft, output);
  return output;
}

function modifiedMs(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

if (import.meta.main) console.log(buildNative());
