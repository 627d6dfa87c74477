// Writes a software bill of materials (SPDX) beside every archive in dist/images.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { VERSION } from '../src/base/version.ts';
import { program } from '../test/support/components.ts';
import { DEFAULT_REGISTRY, IMAGE_NAMES } from './images/declared.ts';

const FOLDER = 'dist/images';
const ARCHIVE = new RegExp(`^(${IMAGE_NAMES.join('|')})-(amd64|arm64)\\.tar$`);

interface SpdxDocument {
  readonly packages: readonly object[];
  readonly creationInfo: object;
}

interface OciIndex {
  readonly manifests: readonly { readonly digest: string }[];
  readonly annotations?: Readonly<Record<string, string>>;
}

const archives = readdirSync(FOLDER).filter((name) => ARCHIVE.test(name));
if (archives.length === 0) throw new Error(`${FOLDER} has no archives: run "make images" first`);
for (const archive of archives) {
  const [, name = ''] = ARCHIVE.exec(archive) ?? [];
  const output = join(FOLDER, `${basename(archive, '.tar')}.spdx.json`);
  const dir = mkdtempSync(join(tmpdir(), 'netplug-sbom-'));
  try {
    const source = ['--source-name', `${DEFAULT_REGISTRY}/${name}`, '--source-version', VERSION];
    // Its own configuration and cache, and no look at its own releases.
    const env = { ...process.env, HOME: dir, XDG_CACHE_HOME: dir, SYFT_CHECK_FOR_APP_UPDATE: 'false' };
    // One more cataloger reads the list of software inside netplug's executables.
    const text = execFileSync(
      program('syft'),
      [
        'scan',
        `oci-archive:${resolve(FOLDER, archive)}`,
        '--select-catalogers',
        '+sbom-cataloger',
        ...source,
        '-q',
        '-o',
        'spdx-json',
      ],
      { encoding: 'utf8', cwd: dir, env, maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const document = JSON.parse(text) as SpdxDocument;
    const digest = createHash('sha256')
      .update(readFileSync(join(FOLDER, archive)))
      .digest('hex');
    // Otherwise the time of the scan and a random number.
    const fixed = {
      ...document,
      documentNamespace: `https://${DEFAULT_REGISTRY}/spdx/${name}/${digest}`,
      creationInfo: { ...document.creationInfo, created: createdAt(name) },
    };
    writeFileSync(output, `${JSON.stringify(fixed, undefined, 1)}\n`);
    process.stdout.write(`images: ${output} names ${String(document.packages.length)} packages\n`);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Returns when the image was made, from the index in its layout. */
function createdAt(name: string): string {
  const read = (path: string): OciIndex => JSON.parse(readFileSync(join(FOLDER, name, path), 'utf8')) as OciIndex;
  const [{ digest } = { digest: '' }] = read('index.json').manifests;
  const created = read(`blobs/${digest.replace(':', '/')}`).annotations?.['org.opencontainers.image.created'];
  if (created === undefined) throw new Error(`${FOLDER}/${name} does not say when it was made`);
  return created;
}
