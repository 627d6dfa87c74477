// Single-executable applications: a bundle put into the binary of Node, with a snapshot of its heap or a cache of its
// compiled code. The same inputs give the same file.
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
import { inject } from 'postject';
import type { Platform } from './platform.ts';

export interface Application {
  readonly bundle: string;
  readonly names: readonly string[];
  /** Of `node --experimental-sea-config`. */
  readonly sea: {
    readonly useSnapshot?: boolean;
    readonly useCodeCache?: boolean;
    readonly execArgv: readonly string[];
  };
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

/** Marks where Node looks for the application inside its own binary. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
/**
 * Runs a command in /mnt, which is the folder. A snapshot contains the path of its script and the id of the process that
 * made it, and the port of a server that it has called: with namespaces for each, and addresses that are not random, none differs
 * from one build to the next.
 */
const ALONE = 'mount --bind "$0" /mnt && ip link set dev lo up && cd /mnt && exec setarch --addr-no-randomize "$@"';
const NAMESPACES = ['--mount', '--net', '--pid', '--fork', '--kill-child'];
/**
 * Seeds what would be random otherwise. One thread allocates in the same order every time; V8 refuses a cache of compiled code
 * made with that flag, and needs it for snapshots only.
 */
const SEEDED = ['--no-warnings', '--random-seed=1'];
const SNAPSHOT = ['--single-threaded'];

/** Puts the application into the folder under its names; does nothing when nothing has changed since the last time. */
export async function assemble({ bundle: main, names, sea }: Application, assembly: Assembly): Promise<void> {
  const { platform, addon, folder, inputs } = assembly;
  const work = join(platform.buildFolder, basename(main, '.cjs'));
  const node = platform.node();
  const digest = createHash('sha256');
  for (const input of [readFileSync(main), readFileSync(addon), ...inputs]) digest.update(input);
  const stamp = digest.digest('hex');
  const isBuilt = existsSync(join(work, 'stamp')) && names.every((name) => existsSync(join(folder, name)));
  if (isBuilt && readFileSync(join(work, 'stamp'), 'utf8') === stamp) return;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  copyFileSync(main, join(work, 'main.cjs'));
  copyFileSync(addon, join(work, 'netns.node'));
  copyFileSync(node, join(work, 'node'));
  const config = {
    main: '/mnt/main.cjs',
    output: '/mnt/blob',
    disableExperimentalSEAWarning: true,
    execArgvExtension: 'none',
    assets: { 'netns.node': '/mnt/netns.node' },
    ...sea,
  };
  writeFileSync(join(work, 'sea.json'), JSON.stringify(config));
  // Node warns that it has not verified some modules in snapshots; the tests of the programs do, for those in use.
  const flags = [...SEEDED, ...(sea.useSnapshot === true ? SNAPSHOT : [])];
  const command = [...platform.run, '/mnt/node', ...flags, '--experimental-sea-config', '/mnt/sea.json'];
  const user = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  execFileSync('unshare', [...user, ...NAMESPACES, 'sh', '-c', ALONE, work, ...command], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const executable = join(work, 'node');
  await inject(executable, 'NODE_SEA_BLOB', readFileSync(join(work, 'blob')), { sentinelFuse: FUSE });
  putUnder(names, executable, folder);
  rmSync(executable);
  writeFileSync(join(work, 'stamp'), stamp);
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
