// Finds a Go command that can build the pinned modules.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

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
    installBackport();
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
      // The version of the command itself, not of a toolchain that a go.mod nearby makes it run.
      const text = execFileSync(path, ['version'], { encoding: 'utf8', env: { ...process.env, GOTOOLCHAIN: 'local' } });
      const version = parseGoVersion(text);
      return version === undefined ? [] : [{ path, version }];
    });
}

/** Uses the mirror that the machine gets Debian's main archive from, and leaves the machine's own lists alone. */
function installBackport(): void {
  const format = '$(REPO_URI) $(RELEASE) $(COMPONENT) $(LABEL)';
  const targets = execFileSync('apt-get', ['indextargets', '--format', format, 'Created-By: Packages'], {
    encoding: 'utf8',
  });
  const debian = targets.split('\n').find((line) => / \w+ main Debian$/.test(line));
  const [mirror, suite] = debian?.split(' ') ?? [];
  if (mirror === undefined || suite === undefined) throw new Error("apt knows no archive of Debian's main section");
  const dir = mkdtempSync(join(tmpdir(), 'netplug-apt-'));
  try {
    mkdirSync(join(dir, 'lists/partial'), { recursive: true });
    const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';
    writeFileSync(join(dir, 'sources.list'), `deb [signed-by=${keyring}] ${mirror} ${suite}-backports main\n`);
    const settings = {
      'Dir::Etc::SourceList': join(dir, 'sources.list'),
      'Dir::Etc::SourceParts': '/dev/null',
      'Dir::State::Lists': join(dir, 'lists'),
      // The folder is private to root.
      'APT::Sandbox::User': 'root',
    };
    const options = ['-q', ...Object.entries(settings).flatMap(([key, value]) => ['-o', `${key}=${value}`])];
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    for (const args of [['update'], ['install', '-y', '--no-install-recommends', BACKPORT.package]])
      execFileSync('apt-get', [...options, ...args], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function compare(a: readonly [number, number], b: readonly [number, number]): number {
  return a[0] === b[0] ? a[1] - b[1] : a[0] - b[0];
}
