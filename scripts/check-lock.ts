// The lock must do for `npm ci` on every Linux, and let nothing in that has no checksum. `--write` adds entries of packages
// for other machines, which npm leaves out when the registry in use does not have them, and `npm ci` then misses.
import { readFileSync, writeFileSync } from 'node:fs';

interface Entry {
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly os?: readonly string[] | string;
  readonly cpu?: readonly string[] | string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const FILE = 'package-lock.json';
/** As packages for one machine are named: `binding-darwin-arm64`, `win32-x64`, `buf-linux-armv7`. */
const MACHINE =
  /(?<os>aix|android|darwin|freebsd|linux|netbsd|openbsd|openharmony|sunos|win32)-(?<cpu>[a-z0-9]+)(?:-(?<libc>musl|gnu))?/;
const SHIPPED = { os: 'linux', cpus: ['x64', 'arm64'] };

const lock = JSON.parse(readFileSync(FILE, 'utf8')) as { packages: Record<string, Entry> };
const packages = Object.entries(lock.packages);
if (packages.length < 2) throw new Error(`${FILE} names no packages`);
const missing = packages.flatMap(([, { optionalDependencies = {} }]) =>
  Object.entries(optionalDependencies).filter(([name]) => lock.packages[`node_modules/${name}`] === undefined),
);
if (process.argv.includes('--write')) {
  const [root = ['', {}], ...rest] = [...packages, ...missing.map(([name, version]) => entryFor(name, version))];
  const sorted = rest.sort(([one], [other]) => one.localeCompare(other, 'en'));
  const text = JSON.stringify({ ...lock, packages: Object.fromEntries([root, ...sorted]) }, undefined, 2);
  writeFileSync(FILE, `${text}\n`);
} else {
  for (const [name] of missing) complain(`${name} has no entry, so "npm ci" refuses: run "npm run lock:write"`);
}
for (const [path, entry] of packages.filter(([name]) => name !== '')) {
  if (entry.resolved !== undefined) complain(`${path} names where it was loaded from`);
  if (entry.integrity === undefined && isInstalled(entry)) complain(`${path} has no checksum`);
}

/** An entry without a checksum: npm checks the machine first and never loads it. */
function entryFor(name: string, version: string): [string, Entry] {
  const { os, cpu, libc } = MACHINE.exec(name.replaceAll('_', '-'))?.groups ?? {};
  if (os === undefined || cpu === undefined)
    throw new Error(`cannot tell the platform of ${name}: os or cpu is missing`);
  const which = libc === undefined ? {} : { libc: [libc === 'gnu' ? 'glibc' : libc] };
  const entry = { version, cpu: [cpu.replace('armv7', 'arm')], dev: true, ...which, optional: true, os: [os] };
  return [`node_modules/${name}`, entry];
}

function isInstalled({ os = SHIPPED.os, cpu = SHIPPED.cpus, ...entry }: Entry): boolean {
  const libc = (entry as { libc?: readonly string[] }).libc ?? ['glibc'];
  return (
    [os].flat().includes(SHIPPED.os) && [cpu].flat().some((one) => SHIPPED.cpus.includes(one)) && libc.includes('glibc')
  );
}

function complain(what: string): void {
  console.error(`${FILE}: ${what}`);
  process.exitCode = 1;
}
