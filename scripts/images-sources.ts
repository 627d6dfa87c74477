// Fetches the source packages of everything that the images take from Debian: to pass on with the images.
import { mkdirSync } from 'node:fs';
import { withAptRoot } from './images/apt-root.ts';
import { readLock } from './images/debian-packages.ts';

const FOLDER = 'dist/images/sources';

const { packages } = readLock();
const sources = [
  ...new Set(Object.values(packages).flatMap((locked) => locked.map(({ source }) => source.replace(' ', '=')))),
].sort();
mkdirSync(FOLDER, { recursive: true });
try {
  withAptRoot({ architecture: 'amd64', types: ['deb', 'deb-src'] }, (apt) => {
    apt.get(['source', '--download-only', ...sources], FOLDER);
  });
  process.stdout.write(`images: source packages of ${String(sources.length)} names are in ${FOLDER}\n`);
} catch {
  process.stderr.write(
    `Cannot fetch every source package: apt names those that the mirror does not have. Hint: fetch them from Debian's snapshot archive\n`,
  );
  process.exitCode = 1;
}
