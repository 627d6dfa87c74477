// Packs the charts of the release into dist/chart: the same bytes each time.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { decodeDigests } from '../src/base/image-digests.ts';
import { VERSION } from '../src/base/version.ts';
import { CHART, chartFiles, CRDS_CHART, crdsChartFiles } from '../src/install/cluster/chart/chart-files.ts';

const digests = decodeDigests(process.env['NETPLUG_IMAGE_DIGESTS'] ?? '');
if (digests === undefined) throw new Error('NETPLUG_IMAGE_DIGESTS is not as scripts/image-digests.ts prints it');
const FOLDER = process.argv[2] ?? 'dist/chart';
const CHARTS = { [CHART]: chartFiles(VERSION, digests), [CRDS_CHART]: crdsChartFiles(VERSION) };
const TAR = [
  '--sort=name',
  '--mtime=@0',
  '--owner=0',
  '--group=0',
  '--numeric-owner',
  '--mode=u=rwX,go=rX',
  '--format=ustar',
];

rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(FOLDER, { recursive: true });
for (const [name, files] of Object.entries(CHARTS)) {
  const root = mkdtempSync(join(tmpdir(), 'netplug-chart-'));
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, name, path)), { recursive: true });
      writeFileSync(join(root, name, path), text);
    }
    const tar = execFileSync('tar', ['--create', ...TAR, '--directory', root, name], { maxBuffer: 64 * 1024 * 1024 });
    writeFileSync(`${FOLDER}/${name}-${VERSION}.tgz`, gzipSync(tar, { level: 9 }));
  } finally {
    rmSync(root, { recursive: true });
  }
}
