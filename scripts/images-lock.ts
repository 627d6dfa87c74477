// Renews images/debian.lock.json: the newest packages of Debian that the images take files from, and the libraries they need.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { withAptRoot } from './images/apt-root.ts';
import { DebianFileSet } from './images/debian-files.ts';
import {
  type DebianArchitecture,
  type DebianLock,
  fetch,
  folderOf,
  LOCK_FILE,
  lockedFrom,
  type LockedPackage,
  parseStanzas,
} from './images/debian-packages.ts';
import { BUILD_PACKAGES, DEBIAN_FILES, DEBIAN_RELEASE } from './images/declared.ts';

/** `name_version_architecture.deb`, where a colon of the version is written as a percent code. */
const URI = /^'\S+' ([^_\s]+)_([^_\s]+)_[^_\s]+\.deb /gm;

const lock: DebianLock = {
  time: Math.floor(Date.now() / 1000),
  packages: { amd64: lockFor('amd64'), arm64: lockFor('arm64') },
};
writeFileSync(LOCK_FILE, `${JSON.stringify(lock, undefined, 2)}\n`);
execFileSync('node_modules/.bin/oxfmt', [LOCK_FILE], { stdio: 'inherit' });
for (const [architecture, packages] of Object.entries(lock.packages))
  process.stdout.write(`images: ${architecture} is locked to ${String(packages.length)} packages\n`);

function lockFor(architecture: DebianArchitecture): readonly LockedPackage[] {
  return withAptRoot({ architecture }, (apt) => {
    const declared = Object.values(DEBIAN_FILES).flatMap(({ files }) => Object.keys(files));
    const plan = apt.get(['install', '--print-uris', '-y', '--no-install-recommends', ...declared, ...BUILD_PACKAGES]);
    const chosen = [...plan.matchAll(URI)].map(
      ([, name = '', version = '']) => `${name}=${decodeURIComponent(version)}`,
    );
    if (chosen.length === 0) throw new Error(`apt names no packages of ${DEBIAN_RELEASE} for ${architecture}`);
    const all = parseStanzas(apt.cache(['show', ...chosen])).map(lockedFrom);
    fetch(apt, all);
    const files = new DebianFileSet(new Map(all.map((one) => [one.name, folderOf(one)])), architecture);
    const libraries = files.layer('libraries');
    const used = [...libraries.packages, ...files.layer('tools', libraries).packages, ...BUILD_PACKAGES];
    return all.filter(({ name }) => used.includes(name)).sort((one, other) => (one.name < other.name ? -1 : 1));
  });
}
