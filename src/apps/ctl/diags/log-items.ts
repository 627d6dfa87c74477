import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ignoreMissing } from '../../../base/missing-file.ts';
import type { DiagsItem } from './item.ts';
import { linesSince, newestLines } from './newest-lines.ts';

const MAX_FILES = 20;
const MAX_FILE_BYTES = 2 * 1024 * 1024;

/** Returns the newest logs in the folders; large files are cut to their end. */
export async function logItems(folders: readonly string[], sinceMs: number | undefined): Promise<readonly DiagsItem[]> {
  const found = await Promise.all([...new Set(folders)].map(listLogs));
  const newest = [...new Map(found.flat().map((log) => [log.path, log])).values()]
    .filter(({ changedMs }) => sinceMs === undefined || changedMs >= sinceMs)
    .sort((a, b) => b.changedMs - a.changedMs)
    .slice(0, MAX_FILES);
  return newest.map(({ path }) => ({
    path: join('logs', path),
    gather: async () => newestLines(linesSince(await readEnd(path), sinceMs), MAX_FILE_BYTES),
  }));
}

async function listLogs(folder: string): Promise<{ readonly path: string; readonly changedMs: number }[]> {
  const names = (await readdir(folder, { recursive: true }).catch(ignoreMissing)) ?? [];
  const logs = names.filter((name) => /\.log(\.|$)/.test(name)).map((name) => join(folder, name));
  const states = await Promise.all(logs.map(async (path) => ({ path, state: await stat(path) })));
  return states.filter(({ state }) => state.isFile()).map(({ path, state }) => ({ path, changedMs: state.mtimeMs }));
}

/** Reads more than is kept, so that the result can start at a whole line. */
async function readEnd(path: string): Promise<string> {
  await using file = await open(path, 'r');
  const { size } = await file.stat();
  const length = Math.min(size, 2 * MAX_FILE_BYTES);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
  return buffer.subarray(0, bytesRead).toString('utf8');
}
