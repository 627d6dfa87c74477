// Packages of another suite of Debian than the machine's own, from the mirror that the machine uses.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const DEBIAN_KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** One archive of Debian, as `apt-get indextargets` names it. */
export interface DebianArchive {
  readonly mirror: string;
  /** Code name of the release. */
  readonly release: string;
  /** The release itself, or its updates or security fixes: `bookworm-security`. */
  readonly part: string;
}

/** Returns Debian's main archives among the lines that `apt-get indextargets` prints. */
export function parseArchives(targets: string): readonly DebianArchive[] {
  return targets.split('\n').flatMap((line) => {
    const [, mirror, part, release] =
      /^(\S+) (([a-z]+)(?:-(?:updates|security))?) main Debian(?:-Security)?$/.exec(line) ?? [];
    return mirror === undefined || part === undefined || release === undefined ? [] : { mirror, release, part };
  });
}

/** Returns the archives of Debian that apt uses on this machine; updates its lists when it has none. */
export function listDebianArchives(): readonly DebianArchive[] {
  const format = '$(REPO_URI) $(RELEASE) $(COMPONENT) $(LABEL)';
  const list = ['indextargets', '--format', format, 'Created-By: Packages'];
  const find = (): readonly DebianArchive[] => parseArchives(execFileSync('apt-get', list, { encoding: 'utf8' }));
  const known = find();
  if (known.length > 0) return known;
  execFileSync('apt-get', ['-q', 'update'], { stdio: ['ignore', 'ignore', 'inherit'] });
  const found = find();
  if (found.length === 0) throw new Error("apt knows no archive of Debian's main section");
  return found;
}

/**
 * Runs `use` with a function that runs apt-get for the suite alone. The machine's own sources and lists are not touched.
 * `suiteOf` is given the release of the machine.
 */
export function withSuite(
  suiteOf: (release: string) => string,
  use: (aptGet: (...args: string[]) => void) => void,
): void {
  const archive = listDebianArchives().find(({ release, part }) => part === release);
  if (archive === undefined) throw new Error("apt knows no archive of Debian's main section");
  const dir = mkdtempSync(join(tmpdir(), 'netplug-apt-'));
  try {
    mkdirSync(join(dir, 'lists/partial'), { recursive: true });
    const source = `deb [signed-by=${DEBIAN_KEYRING}] ${archive.mirror} ${suiteOf(archive.release)} main\n`;
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
