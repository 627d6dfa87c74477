import { constants } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { errnoOf } from '../base/errors.ts';
import { ignoreMissing } from '../base/missing-file.ts';
import { slicesOf } from '../base/slices.ts';
import { isContainerId, isInterfaceName } from '../model/interface-name.ts';
import { type Address, tryParseAddress } from '../net/address.ts';
import { isJsonObject } from './result.ts';

const DEFAULT_FOLDER = '/var/lib/cni/networks';
/** Names of networks that the CNI library of runtimes accepts. */
const NETWORK_NAME = /^[a-zA-Z0-9][\w.-]*$/;
const LARGEST_BYTES = 4096;
const READ_AT_ONCE = 64;

/** An address that host-local holds for an attachment: a file named like it, with container and interface in two lines. */
export interface HostLocalFile {
  readonly address: Address;
  readonly containerId: string;
  readonly ifName: string;
  /** When it was written, in milliseconds since 1970. */
  readonly atMs: number;
}

/** Returns the folder of host-local for the network of the configuration; undefined when its name cannot be that of a folder. */
export function hostLocalFolder({ name, ipam }: Readonly<Record<string, unknown>>): string | undefined {
  const dataDir = isJsonObject(ipam) ? ipam['dataDir'] : undefined;
  const parent = typeof dataDir === 'string' && dataDir !== '' ? dataDir : DEFAULT_FOLDER;
  return typeof name === 'string' && NETWORK_NAME.test(name) && isAbsolute(parent) ? join(parent, name) : undefined;
}

/** Returns the addresses that have a file. host-local assigns none of them, whatever the file contains. */
export async function takenAddresses(folder: string): Promise<readonly Address[]> {
  const names = (await readdir(folder).catch(ignoreMissing)) ?? [];
  return names.flatMap((name) => tryParseAddress(name) ?? []);
}

/** Returns the files that name an attachment. Does not take the lock of host-local, which alone may remove them. */
export async function listHostLocalFiles(folder: string): Promise<readonly HostLocalFile[]> {
  const names = ((await readdir(folder).catch(ignoreMissing)) ?? []).sort();
  const files: HostLocalFile[] = [];
  for (const slice of slicesOf(names, READ_AT_ONCE)) {
    const read = await Promise.all(slice.map(async (name) => readHostLocalFile(folder, name)));
    files.push(...read.filter((file) => file !== undefined));
  }
  return files;
}

async function readHostLocalFile(folder: string, name: string): Promise<HostLocalFile | undefined> {
  const address = tryParseAddress(name);
  if (address === undefined) return undefined;
  await using file = await openHostLocalFile(join(folder, name));
  if (file === undefined) return undefined;
  const { mtimeMs } = await file.stat();
  const [containerId = '', ifName = '', ...rest] = (await file.readFile('utf8')).trim().split(/\r?\n/);
  if (!isContainerId(containerId) || !isInterfaceName(ifName) || rest.length > 0) return undefined;
  return { address, containerId, ifName, atMs: mtimeMs };
}

/** Returns undefined for what was removed in the meantime, may not be read, or is no file that host-local writes. */
export async function openHostLocalFile(path: string): Promise<FileHandle | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch(ignoreErrno);
  const stat = await file?.stat();
  if (stat?.isFile() === true && stat.size <= LARGEST_BYTES) return file;
  await file?.close();
  return undefined;
}

function ignoreErrno(cause: unknown): undefined {
  if (errnoOf(cause) === undefined) throw cause;
}
