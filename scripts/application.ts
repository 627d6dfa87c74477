// Single-executable applications: a bundle put into the binary of a runtime. The same inputs give the same file.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import type { Platform } from './platform.ts';

export interface Application {
  readonly bundle: string;
  readonly names: readonly string[];
  readonly pack: Pack;
}

export interface Pack {
  /** Returns the path of the runtime that the bundle is put into. */
  readonly runtime: (platform: Platform) => string;
  /** Makes an executable from the files `MAIN` and `ADDON` of the folder, and returns its path. */
  readonly make: (folder: string, platform: Platform) => Promise<string>;
}

export interface Assembly {
  readonly platform: Platform;
  /** Path of the compiled addon. */
  readonly addon: string;
  /** Where the executables are put. */
  readonly folder: string;
  /** What the result depends on besides. */
  readonly inputs: readonly Uint8Array[];
}

export const MAIN = 'main.cjs';
export const ADDON = 'netns.node';

/**
 * Runs a command in /mnt, which is the folder. What is packed may contain the path of its script and depend on the id of the
 * process that made it: with namespaces for each, and addresses that are not random, none differs from one build to the next.
 */
const ALONE = 'mount --bind "$0" /mnt && cd /mnt && exec setarch --addr-no-randomize "$@"';
const NAMESPACES = ['--mount', '--net', '--pid', '--fork', '--kill-child'];

/** Puts the application into the folder under its names; does nothing when nothing has changed since the last time. */
export async function assemble({ bundle, names, pack }: Application, assembly: Assembly): Promise<void> {
  const { platform, addon, folder, inputs } = assembly;
  const work = join(platform.buildFolder, basename(bundle, '.cjs'));
  const digest = createHash('sha256');
  const files = [bundle, addon, pack.runtime(platform)].map((path) => readFileSync(path));
  for (const input of [...files, ...inputs]) digest.update(input);
  const stamp = digest.digest('hex');
  const isBuilt = existsSync(join(work, 'stamp')) && names.every((name) => existsSync(join(folder, name)));
  if (isBuilt && readFileSync(join(work, 'stamp'), 'utf8') === stamp) return;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  copyFileSync(bundle, join(work, MAIN));
  copyFileSync(addon, join(work, ADDON));
  const executable = await pack.make(work, platform);
  putUnder(names, executable, folder);
  rmSync(executable);
  writeFileSync(join(work, 'stamp'), stamp);
}

/** Runs a command in the folder, which it sees as /mnt, without a network. */
export function runAlone(folder: string, command: readonly string[]): void {
  const user = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  execFileSync('unshare', [...user, ...NAMESPACES, 'sh', '-c', ALONE, folder, ...command], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** Gives the file these names in the folder, each replaced at once: what is executed from an old one goes on undisturbed. */
export function putUnder(names: readonly string[], file: string, folder: string): void {
  for (const name of names) {
    const draft = join(folder, `.${name}.${String(process.pid)}`);
    linkSync(file, draft);
    renameSync(draft, join(folder, name));
    // Still there after a rename onto another name of the same file.
    rmSync(draft, { force: true });
  }
}
