// What it takes to build executables for this machine, or for one of another architecture.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheFolder } from '../test/support/components.ts';
import { unpackedPackage } from './images/debian-packages.ts';

/** As Node names them. */
export const ARCHITECTURES = ['x64', 'arm64'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

export interface Platform {
  readonly architecture: Architecture;
  /** Intermediate files. */
  readonly buildFolder: string;
  /** Returns the binary of Node without its symbols. */
  readonly node: () => string;
  /** Returns Bun for this machine, which compiles, and for the platform. */
  readonly bun: () => { readonly compiler: string; readonly target: string };
  /** Starts of the commands that run a program of the platform. */
  readonly run: readonly string[];
  /** C compiler for glibc. */
  readonly compiler: string;
  /** C compiler for a static program with musl. */
  readonly musl: () => MuslCompiler;
}

export interface MuslCompiler {
  readonly compiler: string;
  readonly flags: readonly string[];
  /** Named after the sources. */
  readonly libraries: readonly string[];
}

/** GNU's names of architectures. */
const GNU: Readonly<Record<Architecture, string>> = { x64: 'x86_64', arm64: 'aarch64' };
/** Debian's names of architectures, which are Go's as well. */
export const DEBIAN_NAMES: Readonly<Record<Architecture, 'amd64' | 'arm64'>> = { x64: 'amd64', arm64: 'arm64' };
/** Packages of Bun by architecture; that of x64 needs no AVX. */
export const BUN: Readonly<Record<Architecture, string>> = {
  x64: '@oven/bun-linux-x64-baseline',
  arm64: '@oven/bun-linux-aarch64',
};
const BUN_FILE = 'bin/bun';
const ROOT = join(import.meta.dirname, '..');
// musl-gcc knows no -static-pie: it would ask for the loader of shared libraries.
const STATIC_PIE = ['-fPIE', '-static', '-nostartfiles', '-Wl,-pie,--no-dynamic-linker,-z,text'];
const START_FILES = ['rcrt1.o', 'crti.o', 'crtn.o'];

export function isArchitecture(name: string): name is Architecture {
  return ARCHITECTURES.some((known) => known === name);
}

/** Returns where the executables for the architecture are. */
export function executablesFolder(architecture: Architecture): string {
  return architecture === process.arch ? 'dist/bin' : `dist/bin-${architecture}`;
}

/** Returns how to build for the architecture; for this machine's own unless given. */
export function platformOf(architecture: Architecture = ownArchitecture()): Platform {
  return architecture === process.arch ? nativePlatform(architecture) : crossPlatform(architecture);
}

function ownArchitecture(): Architecture {
  if (isArchitecture(process.arch)) return process.arch;
  throw new Error(`netplug is not built on ${process.arch}, only on ${ARCHITECTURES.join(' and ')}`);
}

function nativePlatform(architecture: Architecture): Platform {
  const buildFolder = join(ROOT, 'build');
  const musl = `/usr/lib/${GNU[architecture]}-linux-musl`;
  return {
    architecture,
    buildFolder,
    node: () => strippedNode('strip', process.execPath, buildFolder),
    bun: () => ({ compiler: installedBun(architecture), target: installedBun(architecture) }),
    run: [],
    compiler: 'gcc',
    musl: () => ({ compiler: 'musl-gcc', flags: [...STATIC_PIE, ...startFiles(musl)], libraries: [] }),
  };
}

/** Cross compilers of Debian, and an emulator to make caches of compiled code, which only Node itself can. */
function crossPlatform(architecture: Architecture): Platform {
  const buildFolder = join(ROOT, `build/${architecture}`);
  const triplet = `${GNU[architecture]}-linux-gnu`;
  const compiler = `${triplet}-gcc`;
  return {
    architecture,
    buildFolder,
    node: () => strippedNode(`${triplet}-strip`, fetchedFile(`node-linux-${architecture}`, 'bin/node'), buildFolder),
    bun: () => ({ compiler: installedBun(ownArchitecture()), target: fetchedFile(BUN[architecture], BUN_FILE) }),
    run: [`qemu-${GNU[architecture]}-static`, '-L', `/usr/${triplet}`],
    compiler,
    musl: () => {
      const musl = unpackedPackage('musl-dev', DEBIAN_NAMES[architecture]);
      const libraries = join(musl, `usr/lib/${GNU[architecture]}-linux-musl`);
      const builtIn = execFileSync(compiler, ['-print-file-name=include'], { encoding: 'utf8' }).trim();
      // The headers of Linux are beside those of glibc.
      const headers = [join(musl, `usr/include/${GNU[architecture]}-linux-musl`), builtIn, `/usr/${triplet}/include`];
      const include = ['-nostdinc', ...headers.flatMap((folder) => ['-isystem', folder])];
      const link = ['-nostdlib', `-L${libraries}`, ...startFiles(libraries)];
      const group = ['-Wl,--start-group', '-lc', '-lgcc', '-Wl,--end-group'];
      return { compiler, flags: [...STATIC_PIE, ...include, ...link], libraries: group };
    },
  };
}

function startFiles(folder: string): readonly string[] {
  return START_FILES.map((name) => join(folder, name));
}

/** A seventh of Node is names of functions. */
function strippedNode(strip: string, node: string, folder: string): string {
  const digest = createHash('sha256').update(readFileSync(node)).digest('hex').slice(0, 16);
  const stripped = join(folder, `node-${digest}`);
  if (existsSync(stripped)) return stripped;
  mkdirSync(folder, { recursive: true });
  const draft = `${stripped}.${String(process.pid)}`;
  execFileSync(strip, ['--strip-unneeded', '-o', draft, node], { stdio: 'inherit' });
  renameSync(draft, stripped);
  return stripped;
}

function installedBun(architecture: Architecture): string {
  return join(ROOT, 'node_modules', BUN[architecture], BUN_FILE);
}

/** Fetches an npm package for another architecture, which npm does not install here, and checks it against the lock. */
function fetchedFile(name: string, file: string): string {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly version: string; readonly integrity: string }>>;
  };
  const locked = lock.packages[`node_modules/${name}`];
  if (locked === undefined) throw new Error(`package-lock.json has no ${name}`);
  const folder = join(cacheFolder(), `${name.replace(/^@.*\//, '')}-${locked.version}`);
  const path = join(folder, 'package', file);
  if (existsSync(path)) return path;
  const dir = mkdtempSync(join(tmpdir(), 'netplug-package-'));
  try {
    const pack = ['pack', `${name}@${locked.version}`, '--json', '--pack-destination', dir];
    const [packed] = JSON.parse(execFileSync('npm', pack, { encoding: 'utf8', cwd: dir })) as [{ filename: string }];
    const archive = join(dir, packed.filename);
    const integrity = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
    if (integrity !== locked.integrity)
      throw new Error(`${name}@${locked.version} is not what package-lock.json names`);
    const draft = `${folder}.${String(process.pid)}`;
    mkdirSync(draft, { recursive: true });
    execFileSync('tar', ['-xzf', archive, '-C', draft]);
    renameSync(draft, folder);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
  return path;
}
