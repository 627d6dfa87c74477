// apt for another release of Debian and another architecture than the machine's own, from the mirrors that the machine uses.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEBIAN_KEYRING, listDebianArchives } from '../components/debian-suite.ts';
import { DEBIAN_RELEASE } from './declared.ts';

export interface AptRoot {
  /** Runs apt-get in the folder and returns its output. */
  get(args: readonly string[], folder?: string): string;
  /** Runs apt-cache and returns its output. */
  cache(args: readonly string[]): string;
}

export interface AptRootOptions {
  /** As Debian names it. */
  readonly architecture: string;
  /** `deb`, and `deb-src` for sources as well. */
  readonly types?: readonly ('deb' | 'deb-src')[];
}

/** Most of its output is lists of packages. */
const MAX_OUTPUT = 256 * 1024 * 1024;

/**
 * Runs `use` with an apt that knows the release of the images with its updates and security fixes, and no installed package. Nothing of
 * the machine's own apt changes.
 */
export function withAptRoot<T>({ architecture, types = ['deb'] }: AptRootOptions, use: (apt: AptRoot) => T): T {
  const dir = mkdtempSync(join(tmpdir(), 'netplug-apt-'));
  try {
    for (const folder of ['lists/partial', 'cache/archives/partial', 'etc/preferences.d'])
      mkdirSync(join(dir, folder), { recursive: true });
    const sources = listDebianArchives().flatMap(({ mirror, release: own, part }) =>
      types.map(
        (type) => `${type} [signed-by=${DEBIAN_KEYRING}] ${mirror} ${part.replace(own, DEBIAN_RELEASE)} main\n`,
      ),
    );
    writeFileSync(join(dir, 'sources.list'), sources.join(''));
    writeFileSync(join(dir, 'status'), '');
    const settings = {
      'Dir::Etc': join(dir, 'etc'),
      'Dir::Etc::SourceList': join(dir, 'sources.list'),
      'Dir::Etc::SourceParts': '/dev/null',
      'Dir::State': dir,
      'Dir::State::Lists': join(dir, 'lists'),
      'Dir::State::status': join(dir, 'status'),
      'Dir::Cache': join(dir, 'cache'),
      'APT::Architecture': architecture,
      'APT::Architectures': architecture,
      'Acquire::Languages': 'none',
      // The folder is private to root.
      'APT::Sandbox::User': 'root',
    };
    const options = ['-q', ...Object.entries(settings).flatMap(([key, value]) => ['-o', `${key}=${value}`])];
    const run = (file: string, args: readonly string[], folder = dir): string =>
      execFileSync(file, [...options, ...args], {
        cwd: folder,
        encoding: 'utf8',
        maxBuffer: MAX_OUTPUT,
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
    run('apt-get', ['update']);
    return use({
      get: (args, folder) => run('apt-get', args, folder),
      cache: (args) => run('apt-cache', args),
    });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
