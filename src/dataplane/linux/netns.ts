import { closeSync, constants, fstatSync, openSync, statfsSync } from 'node:fs';
import { NetplugError, errnoOf } from '../../base/errors.ts';
import { isMissing } from '../../base/missing-file.ts';
import type { Addon } from './addon.ts';
import { kernelFailure } from './route-socket.ts';

const EINVAL = 22;
/** What the process or the machine has too little of at the moment: it says nothing about the namespace. */
const SHORTAGES: readonly string[] = ['EMFILE', 'ENFILE', 'ENOMEM'];
const NSFS_MAGIC = 0x6e736673;
/** Not /proc/self, because each thread has its own namespace. */
const OWN_NETNS = '/proc/thread-self/ns/net';

/** An open network namespace other than the thread's own. */
export interface Netns extends Disposable {
  readonly path: string;
  readonly fd: number;
  /**
   * Runs `inside` in the namespace, which /proc/sys/net then shows. It must not await or start anything asynchronous: only
   * this thread changes its namespace, and a pool thread started inside would stay there forever.
   */
  run<T>(inside: () => T): T;
}

export interface NetnsOptions {
  /** Whether the thread's own namespace is accepted too (CNI_NETNS_OVERRIDE). */
  readonly allowOwn: boolean;
}

/** @throws kernel/netns-invalid when the path is missing, not a network namespace, or the thread's own; kernel/failed */
export function openNetns(addon: Addon, path: string, options: NetnsOptions): Netns {
  using files = new DisposableStack();
  const fd = files.adopt(openFile(path), closeSync);
  const home = files.adopt(openFile(OWN_NETNS), closeSync);
  const run: Netns['run'] = (inside) => runInside(addon, { path, fd, home }, inside);
  if (!isNamespace(fd)) throw invalid(path, 'it is not a network namespace');
  if (!options.allowOwn && isSameFile(home, fd))
    throw invalid(path, 'it is the network namespace of the plugin itself');
  // Only entering it distinguishes a network namespace from other kinds.
  run(() => undefined);
  const kept = files.move();
  return { path, fd, run, [Symbol.dispose]: () => kept.dispose() };
}

function openFile(path: string): number {
  try {
    // Non-blocking, because the path comes from the caller and may be a pipe.
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    const code = errnoOf(cause) ?? '';
    if (SHORTAGES.includes(code)) throw openingFailed(path, code, cause);
    const why = isMissing(cause) ? 'it does not exist' : `opening it fails with ${errnoOf(cause) ?? String(cause)}`;
    throw invalid(path, why, cause);
  }
}

/** `home` is the namespace that the thread is in before and after. */
function runInside<T>(
  addon: Addon,
  { path, fd, home }: Pick<Netns, 'path' | 'fd'> & { readonly home: number },
  inside: () => T,
): T {
  const result = addon.setns(fd);
  if (result === -EINVAL) throw invalid(path, 'it is a namespace of another kind');
  if (result !== 0) throw kernelFailure(`enter network namespace "${path}"`, -result);
  try {
    return inside();
  } finally {
    // A thread that cannot return would change the pod in place of the host.
    if (addon.setns(home) !== 0) process.abort();
  }
}

function isNamespace(fd: number): boolean {
  return statfsSync(`/proc/self/fd/${String(fd)}`).type === NSFS_MAGIC;
}

function isSameFile(one: number, other: number): boolean {
  const [a, b] = [fstatSync(one, { bigint: true }), fstatSync(other, { bigint: true })];
  return a.dev === b.dev && a.ino === b.ino;
}

function openingFailed(path: string, code: string, cause: unknown): NetplugError {
  return new NetplugError('kernel/failed', `Cannot open network namespace "${path}": ${code}`, {
    hint: 'Try again; if it lasts, raise the limit of open files (LimitNOFILE) or the memory of netplug-agent',
    facts: { netns: path },
    cause,
  });
}

function invalid(path: string, why: string, cause?: unknown): NetplugError {
  return new NetplugError('kernel/netns-invalid', `Cannot use network namespace "${path}": ${why}`, {
    hint: 'The runtime names the namespace in CNI_NETNS; check that the sandbox still exists',
    facts: { netns: path },
    cause,
  });
}
