// Builds the programs in C, and three single-executable applications with the native addon inside, each under the names it is called by:
// for this machine in dist/bin, with `--architecture arm64` or `x64` in dist/bin-ARCHITECTURE when that is another one. Every
// file is the same wherever and whenever it is built.
import { copyFileSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Application, assemble, putUnder } from './application.ts';
import { buildBirdStarter, buildHealthProbe, buildNative, buildShim } from './build-native.ts';
import { bundle } from './bundle.ts';
import { packIntoBun } from './pack-into-bun.ts';
import { packIntoNode } from './pack-into-node.ts';
import { ARCHITECTURES, executablesFolder, isArchitecture, platformOf } from './platform.ts';

const NODE_OPTIONS = [
  // Memory matters more than the last bit of speed: an agent lives on every node.
  '--max-semi-space-size=2',
  // Trusts the system's root certificates, as netplug-standalone does. Node's own would be parsed at every start.
  '--use-openssl-ca',
];

/** One runs beside each pod that asks for it, and most have little to do: compilers are memory, and only the last one matters in the end. */
const SIDECAR_OPTIONS = [
  '--max-semi-space-size=1',
  '--no-maglev',
  '--no-sparkplug',
  '--invocation-count-for-turbofan=6000',
];

const APPLICATIONS: readonly Application[] = [
  // Serves one call and ends, so that what counts is how soon it starts.
  { bundle: 'build/standalone.cjs', names: ['netplug-standalone'], pack: packIntoBun },
  {
    bundle: 'build/netplug.cjs',
    names: ['netplugctl', 'netplug-agent', 'netplug-orch-controllers', 'netplug-operator', 'netplug-typha'],
    pack: packIntoNode({ execArgv: NODE_OPTIONS }),
  },
  // Runs once for each pod, so that each holds no more code than it needs.
  { bundle: 'build/sidecar.cjs', names: ['netplug-sidecar'], pack: packIntoNode({ execArgv: SIDECAR_OPTIONS }) },
];

const { values } = parseArgs({ options: { architecture: { type: 'string', default: process.arch } } });
if (!isArchitecture(values.architecture))
  throw new Error(`--architecture is "${values.architecture}"; allowed is ${ARCHITECTURES.join(', ')}`);
const platform = platformOf(values.architecture);
const folder = executablesFolder(values.architecture);

mkdirSync(platform.buildFolder, { recursive: true });
mkdirSync(folder, { recursive: true });
const addon = buildNative(platform);
await bundle({ write: true });

const SCRIPTS = ['build', 'application', 'pack-into-bun', 'pack-into-node', 'platform'].map(
  (name) => `scripts/${name}.ts`,
);
const inputs = [...SCRIPTS, 'package.json'].map((path) => readFileSync(path));
for (const application of APPLICATIONS) await assemble(application, { platform, addon, folder, inputs });

place(buildShim(platform), ['netplug', 'netplug-ipam']);
place(buildHealthProbe(platform), ['netplug-probe']);
place(buildBirdStarter(platform), ['netplug-bird']);

// Distribute these files with the programs.
for (const name of ['LICENSE', 'THIRD_PARTY_NOTICES']) copyFileSync(name, `dist/${name}`);

function place(file: string, names: readonly string[]): void {
  if (names.some((name) => !isSameFile(file, join(folder, name)))) putUnder(names, file, folder);
}

function isSameFile(one: string, other: string): boolean {
  return statSync(one).ino === statSync(other, { throwIfNoEntry: false })?.ino;
}
