// The images of netplug, for tests: built from dist/bin when they are missing or older than it.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { VERSION } from '../../src/base/version.ts';
import { archivePath } from '../../scripts/images/build-image.ts';
import { DEFAULT_REGISTRY, type ImageName } from '../../scripts/images/declared.ts';

const run = promisify(execFile);
const REPOSITORY = resolve(import.meta.dirname, '../..');
const OUTPUT = join(REPOSITORY, 'dist/images');
/** What images are made from. */
const SOURCES = ['dist/bin', 'images', 'scripts/images'];
/** Tests that run at the same time build once. */
const LOCK = join(REPOSITORY, 'build/images.lock');

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
