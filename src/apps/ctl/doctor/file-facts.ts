import { access, constants, lstat, readdir, readFile, realpath, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { reasonOf } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { type Mount, mountOf, readMounts } from '../../../install/host/mounts.ts';
import type { Sources } from './sources.ts';

/** A file or socket that only its owner may access. */
export interface PrivateFile {
  readonly path: string;
  /** Description for users. */
  readonly what: string;
  readonly mode: number;
  readonly uid: number;
}

export interface Folder {
  readonly path: string;
  readonly what: string;
  /** Undefined when it does not exist. */
  readonly state:
    | {
        readonly isFolder: boolean;
        readonly mode: number;
        readonly uid: number;
        readonly isWritable: boolean;
        readonly options: readonly string[];
        readonly freeBytes: number;
        readonly totalBytes: number;
        /** Free inodes; undefined when the file system does not count them. */
        readonly freeFiles: number | undefined;
      }
    | undefined;
}

export interface FileFacts {
  /** User ids of this process and of root. */
  readonly owners: readonly number[];
  readonly secrets: readonly PrivateFile[];
  /** Undefined when there is none. */
  readonly socket: PrivateFile | undefined;
  /** Files that the configuration names and that cannot be read. */
  readonly unreadable: readonly { readonly path: string; readonly reason: string }[];
  readonly state: Folder;
  readonly run: Folder;
  /** Undefined when logging to a file is switched off. */
  readonly log: Folder | undefined;
  readonly bins: readonly Folder[];
}

export async function gatherFiles({ context, places, confFiles }: Sources): Promise<FileFacts> {
  const { machine, host } = context.ports;
  const mounts = readMounts(await readFile(join(host.procDir, 'self/mounts'), 'utf8').catch(() => ''));
  const netconf = (await confFiles()).find((file) => file.netconf !== undefined)?.netconf;
  const files: (readonly [string, string | undefined])[] = [
    ['kubeconfig', netconf?.orch.orchconfig],
    ...(netconf?.datastore.type === 'kvv3' ? ([['private key', netconf.datastore.connection.keyFile]] as const) : []),
    ['record of the installation', await ifExists(join(machine.stateDir, 'install.json'))],
    ['configuration of BIRD', await ifExists(join(machine.runDir, 'bird/bird.conf'))],
    ...(await journals(join(machine.stateDir, 'journal'))).map((path): [string, string] => ['journal', path]),
  ];
  const secrets: PrivateFile[] = [];
  const unreadable: { path: string; reason: string }[] = [];
  for (const [what, path] of files) {
    if (path === undefined) continue;
    try {
      const { mode, uid } = await stat(path);
      secrets.push({ path, what, mode: mode & 0o7777, uid });
    } catch (cause) {
      unreadable.push({ path, reason: reasonOf(cause) });
    }
  }
  const folder = async (what: string, path: string): Promise<Folder> => inspectFolder({ what, path }, mounts);
  const logFile = netconf === undefined ? join(machine.logDir, 'cni/cni.log') : netconf.log.filePath;
  return {
    owners: [...new Set([0, host.uid])],
    secrets,
    socket: await inspectSocket(places.socket),
    unreadable,
    state: await folder('state', machine.stateDir),
    run: await folder('socket', dirname(places.socket)),
    log: logFile === undefined ? undefined : await folder('log', dirname(logFile)),
    bins: await Promise.all(places.binDirs.map(async (path) => folder('plugins', path))),
  };
}

async function inspectSocket(path: string): Promise<PrivateFile | undefined> {
  try {
    const { mode, uid } = await lstat(path);
    return { path, what: 'socket of the agent', mode: mode & 0o7777, uid };
  } catch (cause) {
    return ignoreMissing(cause);
  }
}

async function inspectFolder({ path, what }: Pick<Folder, 'path' | 'what'>, mounts: readonly Mount[]): Promise<Folder> {
  try {
    const [found, space, real] = [await stat(path), await statfs(path), await realpath(path)];
    const isWritable = await access(path, constants.W_OK).then(
      () => true,
      () => false,
    );
    return {
      path,
      what,
      state: {
        isFolder: found.isDirectory(),
        mode: found.mode & 0o7777,
        uid: found.uid,
        isWritable,
        options: mountOf(mounts, real)?.options ?? [],
        freeBytes: space.bavail * space.bsize,
        totalBytes: space.blocks * space.bsize,
        freeFiles: space.files === 0 ? undefined : space.ffree,
      },
    };
  } catch (cause) {
    return { path, what, state: ignoreMissing(cause) };
  }
}

async function journals(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch((cause: unknown) => ignoreMissing(cause) ?? []);
  return names.filter((name) => name.endsWith('.jsonl')).map((name) => join(folder, name));
}

async function ifExists(path: string): Promise<string | undefined> {
  return access(path).then(
    () => path,
    () => undefined,
  );
}
