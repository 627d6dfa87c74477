// Builds dist/bin: the shim, and one single-executable application with the native addon inside, each under the names
// it is called by.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { inject } from 'postject';
import { buildNative, buildShim } from './build-native.ts';
import { bundle } from './bundle.ts';

const SHIMS = ['netplug', 'netplug-ipam'];
const PROGRAMS = ['netplug-standalone', 'netplugctl', 'netplug-agent'];
/** Marks where Node looks for the application inside its own binary. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

mkdirSync('build', { recursive: true });
mkdirSync('dist/bin', { recursive: true });
buildNative();
await bundle({ write: true });

const digest = createHash('sha256');
for (const input of ['build/netplug.cjs', 'build/netns.node', 'scripts/build.ts', 'package.json'])
  digest.update(readFileSync(input));
const stamp = digest.digest('hex');
const isCurrent =
  existsSync('build/stamp') &&
  readFileSync('build/stamp', 'utf8') === stamp &&
  PROGRAMS.every((name) => existsSync(`dist/bin/${name}`));
if (!isCurrent) await assemble();

const shim = buildShim();
if (SHIMS.some((name) => !isSameFile(shim, `dist/bin/${name}`))) putUnder(SHIMS, shim);

// Whoever hands the programs on hands these on as well.
for (const name of ['LICENSE', 'THIRD_PARTY_NOTICES']) copyFileSync(name, `dist/${name}`);

async function assemble(): Promise<void> {
  const config = {
    main: 'build/netplug.cjs',
    output: 'build/netplug.blob',
    disableExperimentalSEAWarning: true,
    useCodeCache: true,
    // Memory matters more than the last bit of speed: an agent lives on every node.
    execArgv: ['--max-semi-space-size=2'],
    execArgvExtension: 'none',
    assets: { 'netns.node': 'build/netns.node' },
  };
  writeFileSync('build/sea.json', JSON.stringify(config));
  execFileSync(process.execPath, ['--experimental-sea-config', 'build/sea.json'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  copyFileSync(process.execPath, 'build/netplug.new');
  chmodSync('build/netplug.new', 0o755);
  await inject('build/netplug.new', 'NODE_SEA_BLOB', readFileSync('build/netplug.blob'), { sentinelFuse: FUSE });
  putUnder(PROGRAMS, 'build/netplug.new');
  rmSync('build/netplug.new');
  writeFileSync('build/stamp', stamp);
}

/** Gives the file these names, each replaced at once: what is executed from an old one goes on undisturbed. */
function putUnder(names: readonly string[], file: string): void {
  for (const name of names) {
    const draft = `dist/bin/.${name}.${String(process.pid)}`;
    linkSync(file, draft);
    renameSync(draft, `dist/bin/${name}`);
    // Still there after a rename onto another name of the same file.
    rmSync(draft, { force: true });
  }
}

function isSameFile(one: string, other: string): boolean {
  return statSync(one).ino === statSync(other, { throwIfNoEntry: false })?.ino;
}
