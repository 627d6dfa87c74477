// Builds the Debian package of a node into dist/: agent, plugin, tool and unit. The same input makes the same bytes.
// SOURCE_DATE_EPOCH is the time of every file in it, the last commit unless set.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { VERSION as TAG } from '../src/base/version.ts';

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
/** Without the leading `v`. */
const VERSION = TAG.replace(/^v/, '');
const DOC = 'usr/share/doc/netplug';
/** Conffiles: dpkg asks before it replaces one that was changed. */
const CONFFILES = ['/etc/netplug/agent.env'];
const MAINTAINER = 'netplug maintainers <maintainers@netplug.io>';
const CONTROL = ['postinst', 'prerm', 'postrm'];

interface Packed {
  readonly from: string;
  readonly mode: number;
}

/** By path in the package. */
const FILES: Readonly<Record<string, Packed>> = {
  'opt/cni/bin/netplug-standalone': { from: 'dist/bin/netplug-standalone', mode: 0o755 },
  'opt/cni/bin/netplug': { from: 'dist/bin/netplug', mode: 0o755 },
  'usr/bin/netplugctl': { from: 'dist/bin/netplugctl', mode: 0o755 },
  'usr/lib/systemd/system/netplug-agent.service': { from: 'packaging/debian/netplug-agent.service', mode: 0o644 },
  'etc/netplug/agent.env': { from: 'packaging/debian/agent.env', mode: 0o644 },
  'usr/share/lintian/overrides/netplug': { from: 'packaging/debian/lintian-overrides', mode: 0o644 },
  [`${DOC}/copyright`]: { from: 'packaging/debian/copyright', mode: 0o644 },
  [`${DOC}/examples/10-netplug.conflist`]: { from: 'examples/10-netplug.conflist', mode: 0o644 },
  [`${DOC}/hosts.md`]: { from: 'docs/hosts.md', mode: 0o644 },
  [`${DOC}/examples/ippools.yaml`]: { from: 'examples/ippools.yaml', mode: 0o644 },
};
/** Further names of a file, as hard links. */
const LINKS: Readonly<Record<string, string>> = {
  'opt/cni/bin/netplug-ipam': 'opt/cni/bin/netplug',
  'usr/sbin/netplug-agent': 'usr/bin/netplugctl',
};
const ZIPPED: Readonly<Record<string, () => string>> = {
  [`${DOC}/changelog.gz`]: debianChangelog,
  [`${DOC}/CHANGELOG.md.gz`]: () => readFileSync('CHANGELOG.md', 'utf8'),
  [`${DOC}/THIRD_PARTY_NOTICES.gz`]: () => readFileSync('THIRD_PARTY_NOTICES', 'utf8'),
};

const architecture = ARCHITECTURES[process.arch] ?? process.arch;
const epoch = Number(process.env['SOURCE_DATE_EPOCH'] ?? lastCommit());
const root = mkdtempSync(join(tmpdir(), 'netplug-deb-'));
try {
  const out = process.argv[2] ?? 'dist';
  mkdirSync(out, { recursive: true });
  const file = join(out, `netplug_${VERSION}_${architecture}.deb`);
  fill();
  writeControl();
  age(root);
  // One thread: with several, the bytes would depend on the number of processors.
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', '-z0', '--threads-max=1', '--build', root, file], {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  process.stdout.write(`${file}\n`);
} finally {
  rmSync(root, { recursive: true });
}

function fill(): void {
  for (const [path, { from, mode }] of Object.entries(FILES)) {
    copyFileSync(from, placeOf(path));
    chmodSync(join(root, path), mode);
  }
  for (const [path, target] of Object.entries(LINKS)) linkSync(join(root, target), placeOf(path));
  for (const [path, read] of Object.entries(ZIPPED)) {
    writeFileSync(placeOf(path), gzipSync(read(), { level: 9 }));
    chmodSync(join(root, path), 0o644);
  }
}

function writeControl(): void {
  const paths = list(root).filter((path) => !path.startsWith('DEBIAN/'));
  const sums = paths
    .filter((path) => !CONFFILES.includes(`/${path}`))
    .map((path) => `${md5(join(root, path))}  ${path}\n`);
  const text = readFileSync('packaging/debian/control', 'utf8')
    .replace('@VERSION@', VERSION)
    .replace('@MAINTAINER@', MAINTAINER)
    .replace('@ARCHITECTURE@', architecture)
    .replace('@INSTALLED_SIZE@', String(installedKib(paths)));
  write('control', text);
  write('conffiles', CONFFILES.map((path) => `${path}\n`).join(''));
  write('md5sums', sums.join(''));
  for (const name of CONTROL) {
    write(name, readFileSync(`packaging/debian/${name}`, 'utf8'));
    chmodSync(join(root, 'DEBIAN', name), 0o755);
  }
}

function write(name: string, text: string): void {
  writeFileSync(placeOf(`DEBIAN/${name}`), text);
  chmodSync(join(root, 'DEBIAN', name), 0o644);
}

/** Returns the path in the package's root; makes its folder. */
function placeOf(path: string): string {
  const place = join(root, path);
  mkdirSync(dirname(place), { recursive: true, mode: 0o755 });
  return place;
}

/** Files below the folder, in order of their paths. */
function list(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .toSorted();
}

/** Gives everything the same time, children first. */
function age(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) age(path);
    else lutimesSync(path, epoch, epoch);
  }
  chmodSync(folder, 0o755);
  lutimesSync(folder, epoch, epoch);
}

/** Counts a file with several names once. */
function installedKib(paths: readonly string[]): number {
  const sizes = new Map(paths.map((path) => lstatSync(join(root, path))).map(({ ino, size }) => [ino, size]));
  return [...sizes.values()].reduce((sum, size) => sum + Math.ceil(size / 1024), 0);
}

function md5(path: string): string {
  return createHash('md5').update(readFileSync(path)).digest('hex');
}

/** The form that Debian's tools read; what has changed is in CHANGELOG.md. */
function debianChangelog(): string {
  const time = new Date(epoch * 1000).toUTCString().replace('GMT', '+0000');
  return `netplug (${VERSION}) unstable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- ${MAINTAINER}  ${time}\n`;
}

function lastCommit(): string {
  return execFileSync('git', ['log', '-1', '--format=%ct'], { encoding: 'utf8' }).trim();
}
