import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { getRawAsset, isSea } from 'node:sea';
import { NetplugError, errnoOf, reasonOf } from '../../base/errors.ts';

/** What native/*.c offer. A number below zero is a negative errno. */
export interface Addon {
  /** Moves the calling thread into the network namespace behind `fd`. */
  setns(fd: number): number;
  /** A routing socket of the namespace the thread is in. */
  openRouteSocket(): number;
  close(fd: number): number;
  /** Locks the open file for this process (flock, exclusive) without waiting. */
  tryLock(fd: number): number;
  exchange(socket: number, request: Uint8Array): Buffer | number;
  exchangeOnWorker(socket: number, request: Uint8Array): Promise<Buffer | number>;
  /**
   * Hands what the groups (bit n-1 for group n) tell to the callback, or the negative errno of a failure, until the
   * descriptor it answers is closed. Does not keep the process alive.
   */
  openMonitor(groups: number, onNote: (note: Buffer | number) => void): number;
  /** 1 when the device leaves checksums of what it sends to the hardware, 0 when not. */
  txChecksum(device: string): number;
  setTxChecksum(device: string, value: 0 | 1): number;
}

const ASSET = 'netns.node';
/** Missing from node:fs: a nameless file in a folder (Linux value, with O_DIRECTORY). */
const O_TMPFILE = 0o20200000;

const loaded = new Map<string | undefined, Addon>();

/**
 * Loads the addon, once per process: from `path` when given, out of the executable itself when it is a single-executable application,
 * otherwise from where `npm run build:native` puts it.
 * @throws kernel/failed naming every place that was tried
 */
export function loadAddon(path?: string): Addon {
  const addon = loaded.get(path) ?? loadFrom(path);
  loaded.set(path, addon);
  return addon;
}

function loadFrom(path: string | undefined): Addon {
  if (path === undefined && isSea()) return loadEmbedded(Buffer.from(getRawAsset(ASSET)));
  const file = path ?? fromSources();
  try {
    return open(file);
  } catch (cause) {
    throw cannotLoad(`${quoted(file)}: ${reasonOf(cause)}`, cause);
  }
}

/** A bundle has no folder of its own to start from, so there the path has to be given. */
function fromSources(): string {
  const folder: string | undefined = import.meta.dirname;
  if (folder !== undefined) return join(folder, '../../../build', ASSET);
  throw cannotLoad('the program is bundled and was given no path', undefined);
}

/**
 * dlopen wants a file. It gets one without a name: nothing to predict, to race for or to leave behind. The first
 * folder that can be written and lets code be mapped will do.
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
