// Takes one program out of a package of Debian, without installing the package.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { DebianProgram } from '../../test/support/components.ts';
import { withSuite } from './debian-suite.ts';

/** Puts the program at the path. */
export function unpackProgram({ debian, suite, file }: DebianProgram, path: string): void {
  const dir = mkdtempSync(join(tmpdir(), 'netplug-deb-'));
  const here = process.cwd();
  try {
    // apt-get downloads to where it runs.
    process.chdir(dir);
    withSuite(
      () => suite,
      (aptGet) => aptGet('download', debian),
    );
    const archive = readdirSync(dir).find((name) => name.endsWith('.deb'));
    if (archive === undefined) throw new Error(`apt-get downloaded no package "${debian}"`);
    execFileSync('dpkg', ['--extract', archive, 'unpacked'], { cwd: dir, stdio: ['ignore', 'ignore', 'inherit'] });
    mkdirSync(dirname(path), { recursive: true });
    copyFileSync(join(dir, 'unpacked', file), `${path}.new`);
    renameSync(`${path}.new`, path);
  } finally {
    process.chdir(here);
    rmSync(dir, { recursive: true, force: true });
  }
}
