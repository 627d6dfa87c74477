import type { Stats } from 'node:fs';
import { glob, lstat, readdir, readFile, readlink, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { parse, TomlError } from 'smol-toml';
import { ownValue } from '../../base/own-value.ts';
import { errnoOf } from '../../base/errors.ts';
import { ignoreMissing } from '../../base/missing-file.ts';
import { isRecord } from '../../model/read-schema.ts';
import { readElsewhere, replacedFolder, runElsewhere } from '../conflist-faults.ts';
import type { NodeProblem } from '../../model/node-report.ts';
import { BIN_DIR, CONF_DIR } from '../places.ts';

const RUNTIME = 'containerd';
const DEFAULT_CONFIG = '/etc/containerd/config.toml';
/** The plugin of containerd that starts pods, by version of its configuration, the newest first. */
const CRI_PLUGINS = ['io.containerd.cri.v1.runtime', 'io.containerd.grpc.v1.cri', 'cri'];
/** Files that one configuration may import, and the size of one. */
const MAX_FILES = 64;
const MAX_BYTES = 1_048_576;
/** Parts of a path and of the links in it. */
const MAX_PARTS = 256;

/** Where a runtime of this node looks for network configurations and plugins. */
export interface RuntimeFolders {
  readonly confDir: string;
  readonly binDirs: readonly string[];
  /** The file of its configuration. */
  readonly config: string;
  /** Its root directory, as this process sees it. */
  readonly root: string;
}

/** The folders of netplug, as paths on the host. */
export interface OwnFolders {
  readonly confDir: string;
  readonly binDir: string;
}

/**
 * Returns the faults of folders that no containerd of this node uses. None where no containerd is found, or where its
 * configuration cannot be read or leaves it open: other runtimes are not examined.
 */
export async function findOtherFolders(
  procDir: string,
  { confDir, binDir }: OwnFolders,
): Promise<readonly NodeProblem[]> {
  const runtimes = await findRuntimes(procDir);
  const [first] = runtimes;
  if (first === undefined) return [];
  const isSame = await Promise.all(
    runtimes.map(async ({ root, ...folders }) => ({
      conf: await isSameFolder(root, folders.confDir, confDir),
      bin: (await Promise.all(folders.binDirs.map(async (each) => isSameFolder(root, each, binDir)))).includes(true),
    })),
  );
  return [
    ...(isSame.some(({ conf }) => conf) ? [] : [readElsewhere(first, confDir)]),
    ...(isSame.some(({ bin }) => bin) ? [] : [runElsewhere(first, binDir)]),
  ];
}

/**
 * Reports whether a program is missing in the folder of plugins and in each other one that a containerd of this node uses. Not known,
 * and so false, without one whose configuration can be read.
 */
export async function isProgramMissing(procDir: string, binDir: string, program: string): Promise<boolean> {
  if (await isExecutable(join(binDir, program))) return false;
  const runtimes = await findRuntimes(procDir);
  const paths = runtimes.flatMap(({ root, binDirs }) => binDirs.map((folder) => join(root, folder, program)));
  return paths.length > 0 && !(await Promise.all(paths.map(isExecutable))).includes(true);
}

/** A link counts: its target may be a path of the host that a container does not see. */
async function isExecutable(path: string): Promise<boolean> {
  const found = await tryRead(async () => lstat(path));
  return found !== undefined && (found.isSymbolicLink() || (found.isFile() && (found.mode & 0o111) !== 0));
}

/**
 * Returns the faults of folders that this process has in place of those that a containerd of this node finds at the same paths: the
 * mounts of a container stay where links led when it was created. Undefined where that is not known.
 */
export async function findStaleFolders(
  procDir: string,
  { confDir, binDir }: OwnFolders,
): Promise<readonly NodeProblem[] | undefined> {
  const [runtime] = await findProcesses(procDir);
  if (runtime === undefined) return undefined;
  const folders = await Promise.all(
    [confDir, binDir].map(async (path) => {
      const [own, now] = [await tryRead(async () => stat(path)), await statIn(runtime.root, path)];
      return own === undefined || now === undefined ? undefined : { path, isSame: isSameFile(own, now) };
    }),
  );
  if (folders.includes(undefined)) return undefined;
  return folders.flatMap((each) => (each === undefined || each.isSame ? [] : [replacedFolder(each.path)]));
}

/** Returns what each containerd of this node uses that starts pods. @throws nothing for processes that end meanwhile */
export async function findRuntimes(procDir: string): Promise<readonly RuntimeFolders[]> {
  const found = await Promise.all(
    (await findProcesses(procDir)).map(async ({ root, args }) => (await readFolders(root, configIn(args))) ?? []),
  );
  return found.flat();
}

/** Returns each containerd of this node: its root directory, as this process sees it, and its arguments. */
async function findProcesses(
  procDir: string,
): Promise<readonly { readonly root: string; readonly args: readonly string[] }[]> {
  const namespace = await tryRead(async () => readlink(join(procDir, 'self/ns/net')));
  const host = await tryRead(async () => stat(join(procDir, '1/root')));
  const found = await Promise.all(
    (await readdir(procDir).catch(() => [])).map(async (pid) => {
      if (!/^\d+$/.test(pid)) return [];
      const process = join(procDir, pid);
      if ((await tryRead(async () => readFile(join(process, 'comm'), 'utf8')))?.trim() !== RUNTIME) return [];
      // The runtime of another node on the same machine has a network of its own.
      if ((await tryRead(async () => readlink(join(process, 'ns/net')))) !== namespace) return [];
      // A program of a container may have any name, and files of its own.
      const root = await tryRead(async () => stat(join(process, 'root')));
      if (host === undefined || root === undefined || !isSameFile(root, host)) return [];
      const args = (await tryRead(async () => readFile(join(process, 'cmdline'), 'utf8')))?.split('\0') ?? [];
      return [{ root: join(process, 'root'), args }];
    }),
  );
  return found.flat();
}

function configIn(args: readonly string[]): string {
  for (const [index, arg] of args.entries()) {
    const [, inline] = /^(?:--config|-c)=(.+)$/.exec(arg) ?? [];
    if (inline !== undefined) return inline;
    if (arg === '--config' || arg === '-c') return args[index + 1] ?? DEFAULT_CONFIG;
  }
  return DEFAULT_CONFIG;
}

/** Returns undefined when the configuration cannot be read, leaves the folders open, or starts no pods. */
async function readFolders(root: string, config: string): Promise<RuntimeFolders | undefined> {
  const sections: Readonly<Record<string, unknown>>[] = [];
  const files = [config];
  for (const file of files) {
    const document = await readToml(join(root, file));
    // containerd uses its defaults without a file at the default path.
    if (document === 'missing' && file === DEFAULT_CONFIG)
      return { confDir: CONF_DIR, binDirs: [BIN_DIR], config, root };
    if (document === 'missing' || document === undefined) return undefined;
    const { disabled_plugins: disabled, plugins, imports } = document;
    if (Array.isArray(disabled) && CRI_PLUGINS.some((name) => disabled.includes(name))) return undefined;
    const section = isRecord(plugins) ? CRI_PLUGINS.map((name) => ownValue(plugins, name)).find(isRecord) : undefined;
    if (section !== undefined) sections.push(section);
    for (const pattern of Array.isArray(imports) ? imports : []) {
      if (typeof pattern === 'string') files.push(...(await filesOf(root, resolve(dirname(file), pattern))));
    }
    if (files.length > MAX_FILES) return undefined;
  }
  const networks = sections.map(({ cni }) => (isRecord(cni) ? cni : undefined));
  // Releases differ in whether a section without these keys hides those of an earlier file.
  if (networks.includes(undefined) && networks.some((each) => each !== undefined)) return undefined;
  const {
    conf_dir: confDir = CONF_DIR,
    bin_dirs: binDirs,
    bin_dir: binDir = BIN_DIR,
  }: Readonly<Record<string, unknown>> = Object.assign({}, ...networks);
  const folders = Array.isArray(binDirs) && binDirs.length > 0 ? binDirs : [binDir];
  if (typeof confDir !== 'string' || !folders.every((folder) => typeof folder === 'string')) return undefined;
  return { confDir, binDirs: folders, config, root };
}

async function filesOf(root: string, pattern: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const path of glob(join(root, pattern))) found.push(path.slice(root.length));
  return found.sort();
}

/** Returns undefined for a file that cannot be read, or is none of containerd's. */
async function readToml(path: string): Promise<Readonly<Record<string, unknown>> | 'missing' | undefined> {
  return tryRead(async () => {
    const found = await stat(path).catch(ignoreMissing);
    if (found === undefined) return 'missing';
    if (!found.isFile() || found.size > MAX_BYTES) return undefined;
    try {
      return parse(await readFile(path, 'utf8'));
    } catch (cause) {
      if (cause instanceof TomlError) return undefined;
      throw cause;
    }
  });
}

/** A link or a mount makes two paths one folder. */
async function isSameFolder(root: string, one: string, other: string): Promise<boolean> {
  if (resolve(one) === resolve(other)) return true;
  const [a, b] = await Promise.all([one, other].map(async (path) => statIn(root, path)));
  return a !== undefined && b !== undefined && isSameFile(a, b);
}

/** Follows links as a process with that root does: those that are absolute would begin at the root of this one. */
async function statIn(root: string, path: string): Promise<Stats | undefined> {
  const left = path.split('/');
  let [at, parts] = ['/', 0];
  for (let name = left.shift(); name !== undefined; name = left.shift()) {
    if (name === '' || name === '.') continue;
    const next = name === '..' ? dirname(at) : join(at, name);
    const target = name === '..' ? undefined : await tryRead(async () => readlink(join(root, next)));
    parts += 1;
    if (parts > MAX_PARTS) return undefined;
    if (target === undefined) at = next;
    else {
      if (target.startsWith('/')) at = '/';
      left.unshift(...target.split('/'));
    }
  }
  return tryRead(async () => stat(join(root, at)));
}

function isSameFile(a: Stats, b: Stats): boolean {
  return a.ino === b.ino && a.dev === b.dev;
}

/** A process may end at any moment, and a container may see the processes of its host without their files. */
async function tryRead<T>(read: () => Promise<T>): Promise<T | undefined> {
  return read().catch((cause: unknown) => {
    if (errnoOf(cause) === undefined) throw cause;
    return undefined;
  });
}
