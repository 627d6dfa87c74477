import { formatBytes } from '../format-bytes.ts';
import { type FileFacts, type Folder, gatherFiles } from './file-facts.ts';
import type { Check, Fault } from '../../../checks/check.ts';
import { topic } from './topic.ts';

const FULL_BYTES = 16 * 1024 * 1024;
const LOW_PER_CENT = 5;
const LOW_BYTES = 1024 * 1024 * 1024;

export const FILE_CHECKS: readonly Check<FileFacts>[] = [
  {
    id: 'files/unreadable',
    severity: 'error',
    expected: 'readable files wherever the configuration names one',
    remedy: 'Create the file, or correct the configuration that names it',
    judge: ({ unreadable }) => unreadable.map(({ path, reason }) => `"${path}": ${reason}`),
  },
  {
    id: 'files/exposed',
    severity: 'error',
    expected: 'keys, kubeconfigs and records that only their owner can read',
    remedy: 'Restrict the file to its owner',
    judge: ({ secrets }) =>
      secrets
        .filter(({ mode }) => (mode & 0o077) !== 0)
        .map(({ path, what, mode }) => ({
          found: `${what} "${path}" has mode ${octal(mode)}`,
          command: `chmod 0600 ${path}`,
        })),
  },
  {
    id: 'files/owner',
    severity: 'error',
    expected: 'keys, kubeconfigs, records and the socket owned by root',
    remedy: 'Make root its owner',
    judge: ({ secrets, socket, owners }) =>
      [...secrets, ...(socket === undefined ? [] : [socket])]
        .filter(({ uid }) => !owners.includes(uid))
        .map(({ path, what, uid }) => ({
          found: `${what} "${path}" is owned by user ${String(uid)}`,
          command: `chown root ${path}`,
        })),
  },
  {
    id: 'files/socket-mode',
    severity: 'error',
    expected: 'the socket of the agent with mode 0600, since its clients act as root',
    remedy: 'Correct the mode',
    judge: ({ socket }) =>
      socket === undefined || socket.mode === 0o600
        ? []
        : [{ found: `socket "${socket.path}" has mode ${octal(socket.mode)}`, command: `chmod 0600 ${socket.path}` }],
  },
  {
    id: 'files/open-folder',
    severity: 'error',
    expected: 'folders of state and socket that only their owner can write to',
    remedy: 'Restrict write access to the owner',
    judge: ({ state, run }) =>
      [state, run]
        .filter((folder) => ((folder.state?.mode ?? 0) & 0o022) !== 0)
        .map(({ path, what, state: found }) => ({
          found: `folder of the ${what} "${path}" has mode ${octal(found?.mode ?? 0)}`,
          command: `chmod go-w ${path}`,
        })),
  },
  {
    id: 'files/not-writable',
    severity: 'error',
    expected: 'folders of state and socket that netplug can write to',
    judge: ({ state, run }) => unwritable([state, run]),
  },
  {
    id: 'files/no-log',
    severity: 'warning',
    expected: 'a log folder that netplug can write to; otherwise log entries are lost',
    judge: ({ log }) => (log === undefined ? [] : unwritable([log])),
  },
  {
    id: 'files/disk-full',
    severity: 'error',
    expected: 'disk space for journal and records',
    remedy: 'Free disk space on this file system',
    judge: (facts) =>
      written(facts).flatMap(({ path, state }) => {
        if (state === undefined || (state.freeBytes >= FULL_BYTES && state.freeFiles !== 0)) return [];
        const what = state.freeFiles === 0 ? 'no inodes are free' : `${formatBytes(state.freeBytes)} are free`;
        return [`"${path}": ${what}`];
      }),
  },
  {
    id: 'files/disk-low',
    severity: 'warning',
    expected: `at least ${String(LOW_PER_CENT)} % or 1 GiB free where netplug writes`,
    remedy: 'Free disk space on this file system',
    judge: (facts) =>
      written(facts).flatMap(({ path, state }) => {
        if (state === undefined || state.freeBytes < FULL_BYTES || state.freeBytes >= LOW_BYTES) return [];
        const percent = Math.floor((100 * state.freeBytes) / Math.max(1, state.totalBytes));
        if (percent >= LOW_PER_CENT) return [];
        const found = `"${path}": ${formatBytes(state.freeBytes)} (${String(percent)} %) are free`;
        return [found];
      }),
  },
  {
    id: 'files/no-exec',
    severity: 'error',
    expected: 'folders of plugins on a file system that allows execution',
    remedy: 'Mount it without noexec, or install the plugins elsewhere with "netplugctl node install --bin-dir"',
    judge: ({ bins }) =>
      bins
        .filter(({ state }) => state?.options.includes('noexec') === true)
        .map(({ path }) => `"${path}" is on a file system mounted with noexec`),
  },
];

export const FILE_TOPIC = topic({
  area: 'files',
  scope: 'node',
  gather: gatherFiles,
  measure: ({ state }) =>
    state.state === undefined ? [] : [`${formatBytes(state.state.freeBytes)} free in "${state.path}"`],
  checks: FILE_CHECKS,
});

/** Accepts a missing folder, which is created when it is needed. */
function unwritable(folders: readonly Folder[]): Fault[] {
  return folders.flatMap(({ path, what, state }) => {
    if (state === undefined || (state.isFolder && state.isWritable)) return [];
    const why = state.isFolder ? 'cannot be written to' : 'is not a folder';
    const isReadOnly = state.options.includes('ro');
    const remedy = isReadOnly
      ? 'Mount the file system read-write'
      : 'Correct the permissions, or remove the file at that path';
    return [{ found: `"${path}" for the ${what} ${why}`, remedy }];
  });
}

/** Returns one folder per file system. Folders with the same free space are on the same file system. */
function written({ state, log }: FileFacts): readonly Folder[] {
  return [state, ...(log === undefined ? [] : [log])].filter(
    (folder, index) => index === 0 || folder.state?.freeBytes !== state.state?.freeBytes,
  );
}

function octal(mode: number): string {
  return mode.toString(8).padStart(4, '0');
}
