// Other releases of netplug, for tests of upgrades: built from a commit of this repository in a folder of their own.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { archivePath } from '../../scripts/images/build-image.ts';
import { IMAGE_NAMES } from '../../scripts/images/declared.ts';
import { DEBIAN_NAMES, isArchitecture } from '../../scripts/platform.ts';
import { removeAtEnd } from './janitor.ts';

const run = promisify(execFile);
const REPOSITORY = resolve(import.meta.dirname, '../..');
/** Files that say which version a build has. */
const VERSION_FILES = ['src/base/version.ts', 'package.json'];

export interface Release extends AsyncDisposable {
  readonly version: string;
  /** Folder of its executables. */
  readonly bin: string;
  /** Archives of its images for this machine; none unless they were asked for. */
  readonly images: readonly string[];
}

export interface ReleaseOptions {
  /** Such as `v3.26.4`; that of the commit unless given. */
  readonly version?: string;
  /** `HEAD` unless given. */
  readonly commit?: string;
  readonly parts: 'executables' | 'executables-and-images';
}

/** Builds it with the modules that are installed here. `await using` removes it. */
export async function buildRelease({ version, commit = 'HEAD', parts }: ReleaseOptions): Promise<Release> {
  await using scope = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'netplug-release-'));
  removeAtEnd('folder', folder);
  scope.defer(async () => rm(folder, { recursive: true, force: true }));
  const archive = join(folder, 'sources.tar');
  await run('git', ['archive', `--output=${archive}`, commit], { cwd: REPOSITORY });
  await run('tar', ['-x', '-f', archive, '-C', folder]);
  await symlink(join(REPOSITORY, 'node_modules'), join(folder, 'node_modules'));
  const own = await versionIn(folder);
  if (version !== undefined) await writeVersion(folder, { from: own, to: version });
  const { stdout } = await run('git', ['log', '-1', '--format=%ct', commit], { cwd: REPOSITORY });
  const build = async (...script: string[]): Promise<void> => {
    // The build takes the folder for no repository.
    const env = { ...process.env, GIT_CEILING_DIRECTORIES: tmpdir(), SOURCE_DATE_EPOCH: stdout.trim() };
    await run(process.execPath, script, { cwd: folder, env, maxBuffer: 64 * 1024 * 1024 });
  };
  const images: string[] = [];
  if (parts === 'executables') {
    await build('scripts/build.ts');
  } else {
    const { arch } = process;
    if (!isArchitecture(arch)) throw new Error(`there are no images for ${arch}`);
    await shareLayers(folder);
    await build('scripts/images.ts', '--architecture', DEBIAN_NAMES[arch]);
    images.push(...IMAGE_NAMES.map((name) => archivePath(join(folder, 'dist/images'), name, arch)));
  }
  const kept = scope.move();
  return {
    version: version ?? own,
    bin: join(folder, 'dist/bin'),
    images,
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

async function versionIn(folder: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { readonly version: string };
  return `v${version}`;
}

async function writeVersion(
  folder: string,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<void> {
  for (const file of VERSION_FILES) {
    const path = join(folder, file);
    const text = await readFile(path, 'utf8');
    if (!text.includes(from.slice(1))) throw new Error(`${file} does not have the version ${from}`);
    await writeFile(path, text.replace(from.slice(1), to.slice(1)));
  }
}

/** Layers of packages are the same in every release. */
async function shareLayers(folder: string): Promise<void> {
  const layers = join(REPOSITORY, 'build/layers');
  await mkdir(layers, { recursive: true });
  await mkdir(join(folder, 'build'), { recursive: true });
  await symlink(layers, join(folder, 'build/layers'));
}
