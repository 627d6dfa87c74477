// The images of netplug, for tests: built from dist/bin when they are missing or older than it.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { VERSION } from '../../src/base/version.ts';
import { archivePath } from '../../scripts/images/build-image.ts';
import { DEFAULT_REGISTRY, IMAGE_NAMES, type ImageName } from '../../scripts/images/declared.ts';
import { DEBIAN_NAMES } from '../../scripts/platform.ts';

const run = promisify(execFile);
const REPOSITORY = resolve(import.meta.dirname, '../..');
const OUTPUT = join(REPOSITORY, 'dist/images');
/** What images are made from. */
const SOURCES = ['dist/bin', 'images', 'scripts/images'];
/** Tests that run at the same time build once. */
const LOCK = join(REPOSITORY, 'build/images.lock');
/** In seconds since 1970; no commit of netplug is of this time. */
const OTHER_TIME = '1700000000';

/** Returns the path of the archive of the image for this machine, which `importImage` of a containerd takes. */
export async function builtImage(name: ImageName): Promise<string> {
  const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
  const archive = archivePath(OUTPUT, name, architecture);
  if (!isFresh(archive)) {
    // Layers that another test has just built are in the cache.
    const script = ['scripts/images.ts', '--architecture', architecture === 'x64' ? 'amd64' : 'arm64'];
    await run('flock', [LOCK, process.execPath, ...script], { cwd: REPOSITORY });
  }
  return archive;
}

/**
 * Builds both images once more, with names of another registry and other times of netplug's files: what runs is the same, and
 * digests and layers differ. Returns the archives, which are in the folder.
 */
export async function builtAgain(folder: string, registry: string): Promise<readonly string[]> {
  const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
  const options = ['--architecture', DEBIAN_NAMES[architecture], '--registry', registry, '--output', folder];
  const env = { ...process.env, SOURCE_DATE_EPOCH: OTHER_TIME };
  await run('flock', [LOCK, process.execPath, 'scripts/images.ts', ...options], { cwd: REPOSITORY, env });
  return IMAGE_NAMES.map((name) => archivePath(folder, name, architecture));
}

/** Returns the folder of the OCI layout of the image. */
export async function builtLayout(name: ImageName): Promise<string> {
  await builtImage(name);
  return join(OUTPUT, name);
}

/** Returns the name by which pods run the image. */
export function imageReference(name: ImageName): string {
  return `${DEFAULT_REGISTRY}/${name}:${VERSION}`;
}

function isFresh(archive: string): boolean {
  const built = statSync(archive, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return built > Math.max(...SOURCES.map((folder) => newestIn(join(REPOSITORY, folder))));
}

function newestIn(folder: string): number {
  if (!existsSync(folder)) return 0;
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Math.max(0, ...files.map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs));
}
