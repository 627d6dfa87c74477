// Builds dist/bin: one single-executable application with the native addon inside, under the name of each program.
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
  writeFileSync,
} from 'node:fs';
import { build } from 'esbuild';
import { inject } from 'postject';

const PROGRAMS = ['netplug', 'netplug-ipam', 'netplugctl'];
/** Marks where Node looks for the application inside its own binary. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

mkdirSync('build', { recursive: true });
mkdirSync('dist/bin', { recursive: true });
execFileSync(process.execPath, ['scripts/build-native.ts'], { stdio: 'inherit' });
await build({
  entryPoints: ['src/bin/main.ts'],
  outfile: 'build/netplug.cjs',
  bundle: true,
  platform: 'node',
  target: 'node24',
  format: 'cjs',
  minifySyntax: true,
  minifyWhitespace: true,
  logLevel: 'warning',
  logOverride: { 'empty-import-meta': 'silent' },
});

const digest = createHash('sha256');
for (const input of ['build/netplug.cjs', 'build/netns.node', 'scripts/build.ts', 'package.json'])
  digest.update(readFileSync(input));
const stamp = digest.digest('hex');
const isCurrent =
  existsSync('build/stamp') &&
  readFileSync('build/stamp', 'utf8') === stamp &&
  PROGRAMS.every((name) => existsSync(`dist/bin/${name}`));
if (!isCurrent) await assemble();

async function assemble(): Promise<void> {
  const config = {
    main: 'build/netplug.cjs',
    output: 'build/netplug.blob',
    disableExperimentalSEAWarning: true,
    useCodeCache: true,
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
  for (const name of PROGRAMS) rmSync(`dist/bin/${name}`, { force: true });
  renameSync('build/netplug.new', 'dist/bin/netplug');
  for (const name of PROGRAMS.slice(1)) linkSync('dist/bin/netplug', `dist/bin/${name}`);
  writeFileSync('build/stamp', stamp);
}
