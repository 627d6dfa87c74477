// Finds a Go command that can build the pinned modules.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { withSuite } from './debian-suite.ts';

/** From this release on, Go fetches the toolchain that a module asks for. */
const FETCHES_TOOLCHAINS = [1, 21] as const;
/** A package of Debian's backports that is new enough, and where it puts its commands. */
const BACKPORT = { package: 'golang-1.23-go', command: '/usr/lib/go-1.23/bin/go' };

/** One Go command of this machine. */
export interface GoCommand {
  readonly path: string;
  /** Major and minor number. */
  readonly version: readonly [number, number];
}

/** Returns the newest of the commands that can build the modules; undefined when there is none. */
export function chooseGo(commands: readonly GoCommand[]): GoCommand | undefined {
  const newestFirst = commands.toSorted((a, b) => compare(b.version, a.version));
  return newestFirst.find(({ version }) => compare(version, FETCHES_TOOLCHAINS) >= 0);
}

/** Returns the version that `go version` prints, or undefined for another text. */
export function parseGoVersion(text: string): GoCommand['version'] | undefined {
  const [, major, minor] = /\bgo(\d+)\.(\d+)/.exec(text) ?? [];
  return minor === undefined ? undefined : [Number(major), Number(minor)];
}

/** Returns the path of a Go command, after installing Debian's backport when the machine has none that is new enough. */
export function findGo(say: (text: string) => void): string {
  const found = chooseGo(installedGo());
  if (found !== undefined) return found.path;
  try {
    say(`installing ${BACKPORT.package} from Debian's backports`);
    withSuite(
      (release) => `${release}-backports`,
      (aptGet) => aptGet('install', '-y', '--no-install-recommends', BACKPORT.package),
    );
  } catch (cause) {
    const wanted = FETCHES_TOOLCHAINS.join('.');
    throw new Error(
      `Cannot build components: no Go ${wanted} or later is installed, and ${BACKPORT.package} cannot be installed. ` +
        `Hint: install Go ${wanted} or later and put it in PATH`,
      { cause },
    );
  }
  return BACKPORT.command;
}

/** Lists the Go commands in PATH and where its packages and archives put it. */
function installedGo(): GoCommand[] {
  const packaged = existsSync('/usr/lib') ? readdirSync('/usr/lib').filter((name) => /^go-1\.\d+$/.test(name)) : [];
  const folders = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    '/usr/local/go/bin',
    ...packaged.map((name) => join('/usr/lib', name, 'bin')),
  ];
  return [...new Set(folders)]
    .map((folder) => join(folder, 'go'))
    .filter((path) => existsSync(path))
    .flatMap((path) => {
      // The version of the command itself, not of a toolchain that a go.mod nearby makes it run. What cannot be run, such
      // as a folder of this name, is no Go command.
      const env = { ...process.env, GOTOOLCHAIN: 'local' };
      const version = parseGoVersion(spawnSync(path, ['version'], { encoding: 'utf8', env }).stdout ?? '');
      return version === undefined ? [] : [{ path, version }];
    });
}

function compare(a: readonly [number, number], b: readonly [number, number]): number {
  return a[0] === b[0] ? a[1] - b[1] : a[0] - b[0];
}
