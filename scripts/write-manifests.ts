// Writes the manifests of the release to dist/manifests.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { VERSION } from '../src/base/version.ts';
import { releaseFiles } from '../src/install/cluster/release-manifests.ts';

const FOLDER = 'dist/manifests';

rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(FOLDER, { recursive: true });
for (const [file, text] of Object.entries(releaseFiles(VERSION))) writeFileSync(`${FOLDER}/${file}`, text);
