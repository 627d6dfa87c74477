import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { NetplugError, errnoOf, reasonOf } from '../../base/errors.ts';
import { embeddedFile } from '../../base/executable.ts';
import { getOrInsert } from '../../base/get-or-insert.ts';

/** The functions of native/*.c. A negative number is a negative errno. */
export interface Addon {
  /** Moves the calling thread into the network namespace behind `fd`. */
  setns(fd: number): number;
  /** Opens a routing socket in the namespace of the calling thread. */
  openRouteSocket(): number;
  /** Opens a netfilter socket in the namespace of the calling thread. */
  openFilterSocket(): number;
  close(fd: number): number;
  /** Locks the open file for this process (flock, exclusive) without waiting. */
  tryLock(fd: number): number;
  /** From now on the kernel kills this process when the thread that started it exits. */
  dieWithParent(): number;
  exchange(socket: number, request: Uint8Array): Buffer | number;
  exchangeOnWorker(socket: number, request: Uint8Array): Promise<Buffer | number>;
  /**
   * Passes messages of the groups (bit n-1 for group n), or the negative errno of a failure, to the callback until the
   * returned descriptor is closed. Does not keep the process alive.
   */
  openMonitor(groups: number, onNote: (note: Buffer | number) => void): number;
  /** The same for messages of a socket that another function opened. The socket is closed with the monitor, and on a failure. */
  monitorSocket(socket: number, onNote: (note: Buffer | number) => void): number;
  /** Returns 1 when the device offloads transmit checksums, otherwise 0. */
  txChecksum(device: string): number;
  setTxChecksum(device: string, value: 0 | 1): number;
  /** Makes the new netlink socket receive messages of the group, at most 32. */
  joinGroup(socket: number, group: number): number;
  /** Sends a packet from the namespace of the calling thread; the kernel adds the IP header. Addresses have 4 or 16 bytes. */
  sendRaw(protocol: number, source: Uint8Array, destination: Uint8Array, payload: Uint8Array): number;
  /** Opens a device of that name. IP packets written to the descriptor arrive by it; closing it removes the device. */
  openTun(name: string): number;
  /** Opens a UDP socket in the namespace of the calling thread, bound to the port, that never fragments what it sends. */
  openUnfragmented(family: 4 | 6, port: number): number;
}

const ASSET = 'netns.node';
/** Missing from node:fs: opens an unnamed file in a folder (Linux value, with O_DIRECTORY). */
const O_TMPFILE = 0o20200000;

const loaded = new Map<string | undefined, Addon>();

/**
 * Loads the addon, once per process: from `path` when given, from the executable itself when it is a single-executable
 * application, otherwise from the output folder of `npm run build:native`.
 * @throws kernel/failed with every place that was tried
 */
export function loadAddon(path?: string): Addon {
  return getOrInsert(loaded, path, () => loadFrom(path));
}

function loadFrom(path: string | undefined): Addon {
  const embedded = path === undefined ? embeddedFile(ASSET) : undefined;
  if (embedded !== undefined) return loadEmbedded(embedded);
  const file = path ?? fromSources();
  try {
    return open(file);
  } catch (cause) {
    throw cannotLoad(`${quoted(file)}: ${reasonOf(cause)}`, cause);
  }
}

/** Returns the path in the source tree. A bundle is not in the source tree, so its caller must pass a path. */
function fromSources(): string {
  const folder: string | undefined = import.meta.dirname;
  if (folder !== undefined) return join(folder, '../../../build', ASSET);
  throw cannotLoad('the program is bundled and no path was given', undefined);
}

/**
 * Loads the addon from memory. dlopen needs a file, so the addon is written to an unnamed one, which no other process
 * can guess, replace or find afterwards, in the first folder that is writable and allows executable mappings.
 */
function loadEmbedded(image: Buffer): Addon {
  const refusals: string[] = [];
  for (const folder of [tmpdir(), '/var/lib/netplug', '/run', dirname(process.execPath)]) {
    try {
      return openNameless(folder, image);
    } catch (cause) {
      refusals.push(`${quoted(folder)}: ${errnoOf(cause) ?? reasonOf(cause)}`);
    }
  }
  throw cannotLoad(refusals.join(', '), undefined);
}

function openNameless(folder: string, image: Buffer): Addon {
  const fd = openSync(folder, O_TMPFILE | constants.O_RDWR, 0o700);
  try {
    for (let written = 0; written < image.length;) written += writeSync(fd, image, written);
    return open(`/proc/self/fd/${String(fd)}`);
  } finally {
    closeSync(fd);
  }
}

function open(file: string): Addon {
  const holder: { exports: Partial<Addon> } = { exports: {} };
  process.dlopen(holder, file);
  // The addon is compiled from this repository and exports exactly these functions.
  return holder.exports as Addon;
}

function cannotLoad(why: string, cause: unknown): NetplugError {
  return new NetplugError('kernel/failed', `Cannot load the native addon ${ASSET}: ${why}`, {
    hint: 'Run "npm run build:native"; an installed program needs a folder that allows executable files',
    cause,
  });
}

function quoted(text: string): string {
  return JSON.stringify(text);
}
