// Images of busybox, as `docker save` would write them.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { program } from './components.ts';
import { makeRootfs } from './runtime.ts';

const run = promisify(execFile);

export interface ImageOptions {
  readonly names: readonly string[];
  /** How it is run: Entrypoint, Cmd, Env … */
  readonly config: object;
  /** Further files of this machine by their paths in the image; the libraries that programs need come with them. */
  readonly files?: Readonly<Record<string, string>>;
}

/** Makes an archive, in a folder to be made, of an image with every program of busybox; returns its path. */
export async function makeImage(folder: string, { names, config, files = {} }: ImageOptions): Promise<string> {
  const busybox = program('busybox');
  const { stdout: applets } = await run(busybox, ['--list']);
  const root = await makeRootfs(
    join(folder, 'root'),
    applets.split('\n').filter((applet) => applet !== '' && applet !== 'busybox'),
  );
  for (const [path, file] of Object.entries({ '/bin/busybox': busybox, ...files })) {
    await copyTo(root, path, file);
    for (const library of await librariesOf(file)) await copyTo(root, library, library);
  }
  await run('tar', ['-C', root, '-cf', join(folder, 'layer.tar'), '.']);
  const digest = createHash('sha256').update(await readFile(join(folder, 'layer.tar')));
  const image = {
    architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
    os: 'linux',
    config: { Env: ['PATH=/bin'], ...config },
    rootfs: { type: 'layers', diff_ids: [`sha256:${digest.digest('hex')}`] },
  };
  await writeFile(join(folder, 'config.json'), JSON.stringify(image));
  const manifest = [{ Config: 'config.json', RepoTags: names, Layers: ['layer.tar'] }];
  await writeFile(join(folder, 'manifest.json'), JSON.stringify(manifest));
  const archive = join(folder, 'image.tar');
  await run('tar', ['-C', folder, '-cf', archive, 'manifest.json', 'config.json', 'layer.tar']);
  return archive;
}

async function copyTo(root: string, path: string, source: string): Promise<void> {
  const target = join(root, path);
  await mkdir(dirname(target), { recursive: true });
  // Otherwise it would be written to the program that a link of this name leads to.
  await rm(target, { force: true });
  await copyFile(source, target);
}

/** Their paths, the dynamic linker's among them; none for a program that is complete. */
async function librariesOf(program: string): Promise<string[]> {
  const { stdout } = await run('sh', ['-c', 'ldd "$0" || true', program]);
  return [...stdout.matchAll(/(?:=> |^\s)(\/\S+) \(/gm)].map(([, path]) => path!);
}
