// Files of Debian's packages for a layer: the declared ones, the libraries that their programs need, and for scanners and
// lawyers the stanza and the licenses of every package.
import { lstatSync, readdirSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { DEBIAN_FILES } from './declared.ts';
import { controlOf, type DebianArchitecture } from './debian-packages.ts';
import { describeElf } from './elf.ts';
import type { Entry } from './entry.ts';

export interface DebianLayer {
  readonly entries: readonly Entry[];
  /** Names of the packages that files are from. */
  readonly packages: readonly string[];
}

interface Found {
  readonly name: string;
  readonly path: string;
}

const TRIPLETS: Readonly<Record<DebianArchitecture, string>> = {
  amd64: 'x86_64-linux-gnu',
  arm64: 'aarch64-linux-gnu',
};
const CERTIFICATES = 'usr/share/ca-certificates/mozilla';
const BUNDLE = 'etc/ssl/certs/ca-certificates.crt';
/** Programs start it by a path of its own. */
const LOADER = /^ld-linux/;

/** Finds files in unpacked packages. */
export class DebianFileSet {
  readonly #folders: ReadonlyMap<string, string>;
  readonly #architecture: DebianArchitecture;

  constructor(folders: ReadonlyMap<string, string>, architecture: DebianArchitecture) {
    this.#folders = folders;
    this.#architecture = architecture;
  }

  /** Returns the layer, without what layers below it contain. */
  layer(name: 'libraries' | 'tools', below: DebianLayer = { entries: [], packages: [] }): DebianLayer {
    const { files, libraries } = DEBIAN_FILES[name];
    const entries = new Map<string, Entry>();
    const packages = new Set(Object.keys(files));
    for (const [owner, paths] of Object.entries(files)) {
      for (const path of paths.flatMap((declared) => this.#expand(owner, declared)))
        entries.set(path, { path, mode: this.#modeOf(owner, path), source: this.#sourceOf(owner, path) });
    }
    const present = new Set(below.entries.map(({ path }) => basename(path)));
    const wanted = [...libraries, ...[...entries.values()].flatMap(({ source }) => neededBy(source))];
    for (let library = wanted.pop(); library !== undefined; library = wanted.pop()) {
      if (present.has(library)) continue;
      present.add(library);
      const found = this.#findLibrary(library);
      // Under its own name, without the link that leads to the file of this version.
      const source = this.#sourceOf(found.name, found.path);
      entries.set(found.path, { path: found.path, mode: 0o644, source });
      packages.add(found.name);
      wanted.push(...neededBy(source));
    }
    if (name === 'libraries') this.#addLoader(entries);
    bundleCertificates(entries);
    const added = [...packages]
      .filter((one) => !below.packages.includes(one))
      .flatMap((one) => this.#document(one, entries));
    return { entries: [...entries.values()], packages: [...new Set(added)].sort() };
  }

  /** Adds stanza and license of the package; returns its name, and that of the package which has its license. */
  #document(name: string, entries: Map<string, Entry>): readonly string[] {
    const folder = this.#folderOf(name);
    const add = (path: string, entry: Omit<Entry, 'path'>): void => void entries.set(path, { path, ...entry });
    add(`var/lib/dpkg/status.d/${name}`, { mode: 0o644, text: controlOf(folder) });
    const doc = `usr/share/doc/${name}`;
    const status = lstatSync(join(folder, doc), { throwIfNoEntry: false });
    if (status?.isSymbolicLink() === true) {
      const target = readlinkSync(join(folder, doc));
      add(doc, { mode: 0o777, symlink: target });
      return [name, ...this.#document(basename(target), entries)];
    }
    add(`${doc}/copyright`, { mode: 0o644, source: this.#sourceOf(name, `${doc}/copyright`) });
    return [name];
  }

  #addLoader(entries: Map<string, Entry>): void {
    const path = { amd64: 'usr/lib64/ld-linux-x86-64.so.2', arm64: 'usr/lib/ld-linux-aarch64.so.1' }[
      this.#architecture
    ];
    entries.set(path, { path, mode: 0o755, source: this.#sourceOf('libc6', path) });
  }

  #findLibrary(library: string): Found {
    const path = `usr/lib/${TRIPLETS[this.#architecture]}/${library}`;
    for (const [name, folder] of this.#folders) {
      if (lstatSync(join(folder, path), { throwIfNoEntry: false }) !== undefined) return { name, path };
    }
    throw new Error(`No locked package has the library ${library} for ${this.#architecture}: run "make images-lock"`);
  }

  #expand(owner: string, path: string): readonly string[] {
    const source = this.#sourceOf(owner, path);
    if (!statSync(source).isDirectory()) return [path];
    const below = readdirSync(source, { withFileTypes: true, recursive: true });
    return below
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(path, relative(source, join(entry.parentPath, entry.name))));
  }

  #modeOf(owner: string, path: string): number {
    return statSync(this.#sourceOf(owner, path)).mode & 0o755;
  }

  /** The file itself, where the package has a link to it. */
  #sourceOf(owner: string, path: string): string {
    return realpathSync(join(this.#folderOf(owner), path));
  }

  #folderOf(name: string): string {
    const folder = this.#folders.get(name);
    if (folder === undefined) throw new Error(`The package ${name} is not locked: run "make images-lock"`);
    return folder;
  }
}

/** What update-ca-certificates makes of them when the package is installed. */
function bundleCertificates(entries: Map<string, Entry>): void {
  const certificates = [...entries.values()].filter(({ path }) => dirname(path) === CERTIFICATES);
  if (certificates.length === 0) return;
  const texts = certificates
    .sort((one, other) => (one.path < other.path ? -1 : 1))
    .map(({ source = '' }) => `${readFileSync(source, 'utf8').trim()}\n`);
  for (const { path } of certificates) entries.delete(path);
  entries.set(BUNDLE, { path: BUNDLE, mode: 0o644, text: texts.join('') });
}

function neededBy(source: string | undefined): readonly string[] {
  const needed = source === undefined ? [] : (describeElf(source)?.needed ?? []);
  return needed.filter((library) => !LOADER.test(library));
}
