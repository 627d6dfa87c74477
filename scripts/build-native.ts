// Compiles native/*.c into build/; what is newer than its sources and this script is left as it is.
import { execFileSync } from 'node:child_process';
import { globSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const root = join(import.meta.dirname, '..');
const WARNINGS = ['-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Wformat=2', '-Werror'];
const HARDENING = ['-fstack-protector-strong', '-D_FORTIFY_SOURCE=2', '-Wl,-z,relro,-z,now'];
const MUSL = `/usr/lib/${{ x64: 'x86_64', arm64: 'aarch64' }[process.arch as 'x64' | 'arm64']}-linux-musl`;
// musl-gcc knows no -static-pie: it would ask for the loader of shared libraries.
const STATIC_PIE = ['-fPIE', '-static', '-nostartfiles', '-Wl,-pie,--no-dynamic-linker,-z,text'].concat(
  ['rcrt1.o', 'crti.o', 'crtn.o'].map((name) => `${MUSL}/${name}`),
);
const ADDON = ['addon.c', 'netns.c', 'lock.c', 'lifetime.c', 'monitor.c', 'ethtool.c'];

/** Returns the path of the compiled addon. */
export function buildNative(): string {
  // The runtime's npm package ships no headers; those of the stable interface come on their own.
  const headers = join(dirname(createRequire(import.meta.url).resolve('node-api-headers/package.json')), 'include');
  const flags = ['-fPIC', '-shared', '-DNAPI_VERSION=8', '-isystem', headers];
  return compile(ADDON, 'netns.node', { compiler: 'gcc', flags });
}

/**
 * Returns the path of the shim, which needs nothing on the machine it runs on. It has musl as C library, because the start
 * of glibc costs more than a call (docs/decisions/2026-11-23-shim-with-musl.md).
 */
export function buildShim(): string {
  return compile(['shim.c', 'standalone.c'], 'netplug-shim', { compiler: 'musl-gcc', flags: STATIC_PIE });
}

function compile(
  from: readonly string[],
  to: string,
  { compiler, flags }: { compiler: string; flags: readonly string[] },
): string {
  const sources = from.map((name) => join(root, 'native', name));
  const output = join(root, 'build', to);
  const headers = globSync(join(root, 'native/*.h'));
  const newest = Math.max(...[...sources, ...headers, import.meta.filename].map(modifiedMs));
  if (modifiedMs(output) > newest) return output;
  mkdirSync(dirname(output), { recursive: true });
  // Renamed into place, so that a process which has the old one loaded or two builds at once are not disturbed.
  const draft = `${output}.${String(process.pid)}`;
  execFileSync(compiler, ['-std=gnu11', '-O2', '-s', ...flags, ...WARNINGS, ...HARDENING, '-o', draft, ...sources], {
    stdio: 'inherit',
  });
  renameSync(draft, output);
  return output;
}

function modifiedMs(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

if (import.meta.main) console.log(buildNative());
