// Packages of another suite of Debian than the machine's own, from the mirror that the machine uses.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** One archive of Debian, as `apt-get indextargets` names it. */
export interface DebianArchive {
  readonly mirror: string;
  /** Code name of the release. */
  readonly release: string;
}

/** Returns Debian's main archive among the lines that `apt-get indextargets` prints; undefined without one. */
export function findArchive(targets: string): DebianArchive | undefined {
  const main = targets.split('\n').find((line) => /^\S+ [a-z]+ main Debian$/.test(line));
  const [mirror, release] = main?.split(' ') ?? [];
  return mirror === undefined || release === undefined ? undefined : { mirror, release };
}

/**
 * Runs `use` with a function that runs apt-get for the suite alone. The machine's own sources and lists are not touched.
 * `suiteOf` is given the release of the machine.
 */
export function withSuite(
  suiteOf: (release: string) => string,
  use: (aptGet: (...args: string[]) => void) => void,
): void {
  const format = '$(REPO_URI) $(RELEASE) $(COMPONENT) $(LABEL)';
  const list = ['indextargets', '--format', format, 'Created-By: Packages'];
  const find = (): DebianArchive | undefined => findArchive(execFileSync('apt-get', list, { encoding: 'utf8' }));
  let archive = find();
  if (archive === undefined) {
    // A machine that has no lists of packages yet names no archive either.
    execFileSync('apt-get', ['-q', 'update'], { stdio: ['ignore', 'ignore', 'inherit'] });
    archive = find();
  }
  if (archive === undefined) throw new Error("apt knows no archive of Debian's main section");
  const dir = mkdtempSync(join(tmpdir(), 'netplug-apt-'));
  try {
    mkdirSync(join(dir, 'lists/partial'), { recursive: true });
    const source = `deb [signed-by=${KEYRING}] ${archive.mirror} ${suiteOf(archive.release)} main\n`;
    writeFileSync(join(dir, 'sources.list'), source);
    const settings = {
      'Dir::Etc::SourceList': join(dir, 'sources.list'),
      'Dir::Etc::SourceParts': '/dev/null',
      'Dir::State::Lists': join(dir, 'lists'),
      // The folder is private to root.
      'APT::Sandbox::User': 'root',
    };
    const options = ['-q', ...Object.entries(settings).flatMap(([key, value]) => ['-o', `${key}=${value}`])];
    const aptGet = (...args: string[]): void => {
      execFileSync('apt-get', [...options, ...args], {
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
        stdio: ['ignore', 'ignore', 'inherit'],
      });
    };
    aptGet('update');
    use(aptGet);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
