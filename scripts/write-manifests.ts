// Writes the manifests of the release to dist/manifests.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { decodeDigests } from '../src/base/image-digests.ts';
import { VERSION } from '../src/base/version.ts';
import { releaseFiles } from '../src/install/cluster/release-manifests.ts';

const digests = decodeDigests(process.env['NETPLUG_IMAGE_DIGESTS'] ?? '');
if (digests === undefined) throw new Error('NETPLUG_IMAGE_DIGESTS is not as scripts/image-digests.ts prints it');
const FOLDER = process.argv[2] ?? 'dist/manifests';

rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(FOLDER, { recursive: true });
for (const [file, text] of Object.entries(releaseFiles(VERSION, digests))) writeFileSync(`${FOLDER}/${file}`, text);
