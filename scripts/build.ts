// Builds dist/bin: the shim, and two single-executable applications with the native addon inside, each under the names
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

interface Application {
  readonly bundle: string;
  readonly names: readonly string[];
  /** Of `node --experimental-sea-config`. */
  readonly sea: object;
}
const APPLICATIONS: readonly Application[] = [
  {
    // Serves one call and ends: it starts from a snapshot of the heap, and has room for all it allocates.
    bundle: 'build/standalone.cjs',
    names: ['netplug-standalone'],
    sea: { useSnapshot: true, execArgv: ['--min-semi-space-size=16'] },
  },
  {
    // Memory matters more than the last bit of speed: an agent lives on every node.
    bundle: 'build/netplug.cjs',
    names: ['netplugctl', 'netplug-agent'],
    sea: { useCodeCache: true, execArgv: ['--max-semi-space-size=2'] },
  },
];
/** Marks where Node looks for the application inside its own binary. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

mkdirSync('build', { recursive: true });
mkdirSync('dist/bin', { recursive: true });
buildNative();
await bundle({ write: true });

for (const application of APPLICATIONS) await assemble(application);

const shim = buildShim();
if (SHIMS.some((name) => !isSameFile(shim, `dist/bin/${name}`))) putUnder(SHIMS, shim);

// Distribute these files with the programs.
for (const name of ['LICENSE', 'THIRD_PARTY_NOTICES']) copyFileSync(name, `dist/${name}`);

/** Does nothing when nothing has changed since the last time. */
async function assemble({ bundle: main, names, sea }: Application): Promise<void> {
  const digest = createHash('sha256');
  for (const input of [main, 'build/netns.node', 'scripts/build.ts', 'package.json'])
    digest.update(readFileSync(input));
  const stamp = digest.digest('hex');
  const isBuilt = existsSync(`${main}.stamp`) && names.every((name) => existsSync(`dist/bin/${name}`));
  if (isBuilt && readFileSync(`${main}.stamp`, 'utf8') === stamp) return;
  const config = {
    main,
    output: `${main}.blob`,
    disableExperimentalSEAWarning: true,
    execArgvExtension: 'none',
    assets: { 'netns.node': 'build/netns.node' },
    ...sea,
  };
  writeFileSync(`${main}.json`, JSON.stringify(config));
  // Node warns that it has not verified some modules in snapshots; the tests of the programs do, for those in use.
  execFileSync(process.execPath, ['--no-warnings', '--experimental-sea-config', `${main}.json`], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const draft = `${main}.new`;
  copyFileSync(process.execPath, draft);
  chmodSync(draft, 0o755);
  await inject(draft, 'NODE_SEA_BLOB', readFileSync(`${main}.blob`), { sentinelFuse: FUSE });
  putUnder(names, draft);
  rmSync(draft);
  writeFileSync(`${main}.stamp`, stamp);
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
