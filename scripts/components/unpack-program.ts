// Takes one program out of a package of Debian, without installing the package.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { DebianProgram } from '../../test/support/components.ts';

/** Puts the program at the path. The package comes from where the machine gets its own packages. */
export function unpackProgram({ debian, file }: DebianProgram, path: string): void {
  const dir = mkdtempSync(join(tmpdir(), 'netplug-deb-'));
  const run = (...[command, ...args]: [string, ...string[]]): void => {
    execFileSync(command, args, { cwd: dir, stdio: ['ignore', 'ignore', 'inherit'] });
  };
  // The folder is private to root.
  const download = (): void => run('apt-get', '-q', '-o', 'APT::Sandbox::User=root', 'download', debian);
  try {
    try {
      download();
    } catch {
      // A new machine has no lists of packages yet; any other reason makes the second attempt fail as well.
      run('apt-get', '-q', 'update');
      download();
    }
    const archive = readdirSync(dir).find((name) => name.endsWith('.deb'));
    if (archive === undefined) throw new Error(`apt-get downloaded no package "${debian}"`);
    run('dpkg', '--extract', archive, 'unpacked');
    mkdirSync(dirname(path), { recursive: true });
    copyFileSync(join(dir, 'unpacked', file), `${path}.new`);
    renameSync(`${path}.new`, path);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
