// Signs what is in dist/images with a key of the user's: a list of checksums of every archive and bill of materials, and, with
// --registry, the images that were pushed there. Nothing is sent to a transparency log.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { VERSION } from '../src/base/version.ts';
import { program } from '../test/support/components.ts';
import { IMAGE_NAMES } from './images/declared.ts';

const FOLDER = 'dist/images';
const SUMS = join(FOLDER, 'SHA256SUMS');
const SIGNED = /\.(tar|spdx\.json)$|^digests\.json$/;
/** Signatures that neither a log nor a timestamp authority has seen. */
const NO_SERVICES = '{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json"}\n';

const { values } = parseArgs({ options: { key: { type: 'string', default: '' }, registry: { type: 'string' } } });
if (values.key === '') {
  process.stderr.write(
    'Cannot sign images: no key is given. Hint: make one with "cosign generate-key-pair", then run "make images-sign COSIGN_KEY=cosign.key"\n',
  );
  process.exitCode = 64;
} else {
  sign(values.key, values.registry);
}

function sign(key: string, registry: string | undefined): void {
  const names = readdirSync(FOLDER)
    .filter((name) => SIGNED.test(name))
    .sort();
  if (!names.some((name) => name.endsWith('.tar')))
    throw new Error(`${FOLDER} has no archives: run "make images" first`);
  const sums = names.map(
    (name) =>
      `${createHash('sha256')
        .update(readFileSync(join(FOLDER, name)))
        .digest('hex')}  ${name}\n`,
  );
  writeFileSync(SUMS, sums.join(''));
  const dir = mkdtempSync(join(tmpdir(), 'netplug-sign-'));
  try {
    const config = join(dir, 'signing-config.json');
    writeFileSync(config, NO_SERVICES);
    const cosign = (...args: string[]): void => {
      execFileSync(program('cosign'), args, { stdio: ['inherit', 'ignore', 'inherit'] });
    };
    const common = ['--yes', '--key', key, '--signing-config', config];
    cosign('sign-blob', ...common, '--bundle', `${SUMS}.sigstore.json`, SUMS);
    process.stdout.write(`images: signed ${String(names.length)} files in ${SUMS}\n`);
    for (const name of registry === undefined ? [] : IMAGE_NAMES) {
      const image = `${registry ?? ''}/${name}`;
      const digest = execFileSync(program('crane'), ['digest', `${image}:${VERSION}`], { encoding: 'utf8' }).trim();
      cosign('sign', ...common, '--recursive', `${image}@${digest}`);
      process.stdout.write(`images: signed ${image}@${digest}\n`);
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
