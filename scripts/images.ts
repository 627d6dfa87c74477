// Builds the images of netplug from its executables, packages of Debian and the standard CNI plugins: docs/images.md.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildImage } from './images/build-image.ts';
import { DEFAULT_REGISTRY, IMAGE_NAMES } from './images/declared.ts';
import { type Architecture, ARCHITECTURES, DEBIAN_NAMES } from './platform.ts';

const USAGE = `usage: images.ts [--architecture amd64|arm64]... [--registry PREFIX] [--output FOLDER] [--revision COMMIT]
`;
/** Layers that no build has used for so long are removed. */
const KEPT_MS = 24 * 3600 * 1000;

const { values } = parseArgs({
  options: {
    architecture: { type: 'string', multiple: true, default: ARCHITECTURES.map((each) => DEBIAN_NAMES[each]) },
    registry: { type: 'string', default: DEFAULT_REGISTRY },
    output: { type: 'string', default: 'dist/images' },
    revision: { type: 'string' },
  },
});
const architectures = ARCHITECTURES.filter((each) => values.architecture.includes(DEBIAN_NAMES[each]));
if (architectures.length !== new Set(values.architecture).size) {
  process.stderr.write(USAGE);
  process.exitCode = 64;
} else {
  await build(architectures);
}

async function build(architectures: readonly Architecture[]): Promise<void> {
  const started = Date.now();
  for (const architecture of architectures) {
    const command = ['scripts/build.ts', '--architecture', architecture];
    execFileSync(process.execPath, command, { stdio: ['ignore', 'inherit', 'inherit'] });
  }
  const options = {
    architectures,
    registry: values.registry,
    output: values.output,
    time: sourceTime(),
    revision: values.revision ?? cleanCommit(),
  };
  const built = await Promise.all(IMAGE_NAMES.map(async (name) => buildImage(name, options)));
  writeFileSync(
    join(values.output, 'digests.json'),
    `${JSON.stringify(Object.fromEntries(built.map(({ reference, digest }) => [reference, digest])), undefined, 2)}\n`,
  );
  removeOldLayers();
  for (const { reference, digest, archives } of built) {
    const sizes = archives.map((path) => `${path} ${(statSync(path).size / 1e6).toFixed(1)} MB`);
    process.stdout.write(`images: ${reference} ${digest}: ${sizes.join(', ')}\n`);
  }
  process.stdout.write(`images: built in ${String(Math.round((Date.now() - started) / 1000))} s\n`);
}

/** When the sources were committed, unless SOURCE_DATE_EPOCH says otherwise. */
function sourceTime(): number {
  const text = process.env['SOURCE_DATE_EPOCH'] ?? git('log', '-1', '--format=%ct');
  if (/^\d+$/.test(text)) return Number(text);
  throw new Error(
    'Cannot build images: the time of the sources is unknown. Hint: build in a git repository, or set SOURCE_DATE_EPOCH',
  );
}

/** The commit, unless files differ from it. */
function cleanCommit(): string | undefined {
  const commit = git('rev-parse', 'HEAD');
  return commit === '' || git('status', '--porcelain') !== '' ? undefined : commit;
}

function git(...args: string[]): string {
  try {
    return execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return '';
  }
}

function removeOldLayers(): void {
  const folder = 'build/layers';
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const path = join(folder, name);
    if (Date.now() - statSync(path).mtimeMs > KEPT_MS) rmSync(path, { force: true });
  }
}
