// Compiles native/*.c into build/; what is newer than its sources and this script is left as it is.
import { execFileSync } from 'node:child_process';
import { globSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { VERSION } from '../src/base/version.ts';
import { type Platform, platformOf } from './platform.ts';

const root = join(import.meta.dirname, '..');
const WARNINGS = ['-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Wformat=2', '-Werror'];
const HARDENING = ['-fstack-protector-strong', '-D_FORTIFY_SOURCE=2', '-Wl,-z,relro,-z,now'];
// The same wherever the sources are.
const PLACES = [`-ffile-prefix-map=${root}=.`];
const ADDON = ['addon.c', 'netns.c', 'lock.c', 'lifetime.c', 'monitor.c', 'ethtool.c', 'probe.c', 'unfragmented.c'];

/** Returns the path of the compiled addon. */
export function buildNative(platform: Platform = platformOf()): string {
  // The runtime's npm package ships no headers; those of the stable interface come on their own.
  const headers = join(dirname(createRequire(import.meta.url).resolve('node-api-headers/package.json')), 'include');
  const flags = ['-fPIC', '-shared', '-DNAPI_VERSION=8', '-isystem', headers];
  return compile(ADDON, join(platform.buildFolder, 'netns.node'), { compiler: platform.compiler, flags });
}

/**
 * Returns the path of the shim, which needs nothing on the machine it runs on. It has musl as C library, because the start
 * of glibc costs more than a call (docs/decisions/2026-11-23-shim-with-musl.md).
 */
export function buildShim(platform: Platform): string {
  return compile(['shim.c', 'standalone.c'], join(platform.buildFolder, 'netplug-shim'), platform.musl());
}

/** Returns the path of the program that probes the health of an agent in a pod. */
export function buildHealthProbe(platform: Platform): string {
  return compile(['health-probe.c'], join(platform.buildFolder, 'netplug-probe'), platform.musl());
}

/** Returns the path of the program that runs BIRD in a pod of its own. */
export function buildBirdStarter(platform: Platform): string {
  const { flags, ...musl } = platform.musl();
  const all = [...flags, `-DVERSION="${VERSION}"`];
  return compile(['bird-starter.c'], join(platform.buildFolder, 'netplug-bird'), { ...musl, flags: all });
}

interface Compilation {
  readonly compiler: string;
  readonly flags: readonly string[];
  readonly libraries?: readonly string[];
}

function compile(from: readonly string[], output: string, { compiler, flags, libraries = [] }: Compilation): string {
  const sources = from.map((name) => join(root, 'native', name));
  const headers = globSync(join(root, 'native/*.h'));
  const scripts = [import.meta.filename, join(root, 'src/base/version.ts')];
  const newest = Math.max(...[...sources, ...headers, ...scripts].map(modifiedMs));
  if (modifiedMs(output) > newest) return output;
  mkdirSync(dirname(output), { recursive: true });
  // Renamed into place, so that a process which has the old one loaded or two builds at once are not disturbed.
  const draft = `${output}.${String(process.pid)}`;
  const all = ['-std=gnu11', '-O2', '-s', ...flags, ...WARNINGS, ...HARDENING, ...PLACES, '-o', draft, ...sources];
  execFileSync(compiler, [...all, ...libraries], { stdio: 'inherit' });
  renameSync(draft, output);
  return output;
}

function modifiedMs(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

if (import.meta.main) console.log(buildNative());
