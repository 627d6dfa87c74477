// Packages of Debian that images are made from: exactly those of the lock, unpacked into the cache folder.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheFolder } from '../../test/support/components.ts';
import { type AptRoot, withAptRoot } from './apt-root.ts';

/** As Debian names them. */
export type DebianArchitecture = 'amd64' | 'arm64';

export interface LockedPackage {
  readonly name: string;
  readonly version: string;
  /** Source package and its version. */
  readonly source: string;
  readonly sha256: string;
}

export interface DebianLock {
  /** When the lock was renewed, in seconds since 1970: the time of every file from a package. */
  readonly time: number;
  readonly packages: Readonly<Record<DebianArchitecture, readonly LockedPackage[]>>;
}

/** A stanza of apt's lists of packages. */
export type Stanza = Readonly<Record<string, string>>;

export const LOCK_FILE = join(import.meta.dirname, '../../images/debian.lock.json');
const ARCHIVE = /\.deb$/;
const SHOWN = 8;

export function readLock(): DebianLock {
  return JSON.parse(readFileSync(LOCK_FILE, 'utf8')) as DebianLock;
}

/** Returns the folder of the files of a locked package. */
export function unpackedPackage(name: string, architecture: DebianArchitecture): string {
  const folder = unpackLocked(architecture).get(name);
  if (folder === undefined) throw new Error(`${LOCK_FILE} has no ${name} for ${architecture}: run "make images-lock"`);
  return folder;
}

/** Returns the folders of all locked packages of the architecture; fetches those that the cache does not have. */
export function unpackLocked(architecture: DebianArchitecture): ReadonlyMap<string, string> {
  const locked = readLock().packages[architecture];
  const missing = locked.filter((one) => !existsSync(folderOf(one)));
  if (missing.length > 0) {
    withAptRoot({ architecture }, (apt) => {
      refuseOthers(missing, parseStanzas(apt.cache(['show', ...missing.map(({ name }) => name)])));
      fetch(apt, missing);
    });
  }
  return new Map(locked.map((one) => [one.name, folderOf(one)]));
}

/** Downloads, checks and unpacks the packages that the cache does not have. */
export function fetch(apt: AptRoot, wanted: readonly LockedPackage[]): void {
  const packages = wanted.filter((one) => !existsSync(folderOf(one)));
  if (packages.length === 0) return;
  const dir = mkdtempSync(join(tmpdir(), 'netplug-debs-'));
  try {
    apt.get(['download', ...packages.map(({ name, version }) => `${name}=${version}`)], dir);
    const archives = readdirSync(dir).filter((name) => ARCHIVE.test(name));
    const byDigest = new Map(
      archives.map((name) => [
        createHash('sha256')
          .update(readFileSync(join(dir, name)))
          .digest('hex'),
        join(dir, name),
      ]),
    );
    for (const one of packages) {
      const archive = byDigest.get(one.sha256);
      if (archive === undefined)
        throw new Error(`${one.name} ${one.version} has another checksum than ${LOCK_FILE} names`);
      unpack(archive, folderOf(one));
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** @throws Error that names every package of which the archive has another version */
export function refuseOthers(locked: readonly LockedPackage[], offered: readonly Stanza[]): void {
  const others = locked.flatMap(({ name, version, sha256 }) => {
    const stanzas = offered.filter((stanza) => stanza['Package'] === name);
    const found = stanzas.find((stanza) => stanza['Version'] === version);
    if (found?.['SHA256'] === sha256) return [];
    if (found !== undefined) return `${name} ${version} with another checksum`;
    const versions = stanzas.length === 0 ? 'in no version' : stanzas.map((stanza) => stanza['Version']).join(', ');
    return `${name} ${versions}, not ${version}`;
  });
  if (others.length === 0) return;
  const more = others.length > SHOWN ? `, and ${String(others.length - SHOWN)} more` : '';
  throw new Error(
    `Cannot build the images: the archive of Debian offers ${others.slice(0, SHOWN).join('; ')}${more}. ` +
      'Hint: run "make images-lock", and commit images/debian.lock.json',
  );
}

/** Parses the output of `apt-cache show`. Continued lines are dropped. */
export function parseStanzas(text: string): readonly Stanza[] {
  return text
    .split(/\n\n+/)
    .map((stanza) =>
      Object.fromEntries([...stanza.matchAll(/^([\w-]+): (.*)$/gm)].map(([, key = '', value = '']) => [key, value])),
    )
    .filter((stanza) => stanza['Package'] !== undefined);
}

/** Returns the stanza as a package of a lock. */
export function lockedFrom(stanza: Stanza): LockedPackage {
  const { Package: name = '', Version: version = '', SHA256: sha256 = '', Source: source = '' } = stanza;
  const [sourceName = name, sourceVersion = version] = source === '' ? [] : source.replaceAll(/[()]/g, '').split(' ');
  return { name, version, source: `${sourceName} ${sourceVersion}`, sha256 };
}

/** Returns the control file of an unpacked package. */
export function controlOf(folder: string): string {
  return readFileSync(`${folder}.control`, 'utf8');
}

/** Returns where the package is unpacked to. */
export function folderOf({ name, version, sha256 }: LockedPackage): string {
  return join(
    cacheFolder(),
    'debian-packages',
    `${name}_${version.replaceAll(/[^\w.+~-]/g, '_')}_${sha256.slice(0, 16)}`,
  );
}

function unpack(archive: string, folder: string): void {
  mkdirSync(join(folder, '..'), { recursive: true });
  const draft = `${folder}.${String(process.pid)}`;
  execFileSync('dpkg-deb', ['--extract', archive, draft], { stdio: ['ignore', 'ignore', 'inherit'] });
  writeFileSync(`${folder}.control`, execFileSync('dpkg-deb', ['--field', archive]));
  try {
    renameSync(draft, folder);
  } catch (cause) {
    // Another build has unpacked the same package meanwhile.
    if (!existsSync(folder)) throw cause;
    rmSync(draft, { recursive: true });
  }
}
