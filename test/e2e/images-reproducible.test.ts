// The images are the same wherever and whenever they are built.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { IMAGE_NAMES } from '../../scripts/images/declared.ts';
import { removeAtEnd } from '../support/janitor.ts';

const run = promisify(execFile);
const REPOSITORY = resolve(import.meta.dirname, '../..');
const BUILT = ['build', 'dist', 'bench', '.git', 'node_modules'];
const SECOND_MS = 1000;
const BUILD_MS = 600_000;

/** Builds the images of this machine's architecture; returns their digests by name. */
async function digestsOf(repository: string, output: string): Promise<unknown> {
  const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
  const options = ['--architecture', architecture, '--output', output, '--revision', 'a1b2c3'];
  const env = { ...process.env, SOURCE_DATE_EPOCH: '1790000000' };
  await run(process.execPath, ['scripts/images.ts', ...options], { cwd: repository, env, maxBuffer: 2 ** 26 });
  return JSON.parse(await readFile(join(output, 'digests.json'), 'utf8'));
}

it(
  'gives images of the same digests when executables and layers are built again in another folder',
  async () => {
    const dir = await mkdtemp(join(tmpdir(), 'netplug-twice-'));
    removeAtEnd('folder', dir);
    try {
      const copy = join(dir, 'somewhere/else');
      await cp(REPOSITORY, copy, {
        recursive: true,
        filter: (path) => !BUILT.some((name) => path === join(REPOSITORY, name)),
      });
      await run('cp', ['-a', join(REPOSITORY, 'node_modules'), copy]);
      const started = Date.now();
      const first = await digestsOf(REPOSITORY, join(dir, 'first'));
      const second = await digestsOf(copy, join(dir, 'second'));
      expect(Date.now() - started).toBeGreaterThan(SECOND_MS);
      expect(second).toEqual(first);
      expect(Object.values(second as object)).toHaveLength(IMAGE_NAMES.length);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  },
  BUILD_MS,
);
