import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { KeptNote } from '../model/kept-attachments.ts';
import { keptNotesIn, nameKept } from './kept-notes.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-kept-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const at = '2026-01-01T00:00:00.000Z';
const attachment = { containerId: 'c1', ifName: 'eth0', pod: 'shop/web', askedAt: at, goneSince: undefined };
const note = (network: string, kept: KeptNote['kept'] = [attachment]): KeptNote => ({ network, at, kept });

it('notes of what GC kept are read as they were written, one for each network, by root alone', async () => {
  const notes = keptNotesIn(join(folder, 'kept'));
  expect(await notes.list()).toEqual([]);
  await notes.put(note('a/../net'));
  await notes.put(note('b'));
  await notes.put(note('b', []));
  expect(await notes.list()).toEqual([note('a/../net')]);
  expect((await stat(join(folder, 'kept'))).mode & 0o777).toBe(0o700);
  await writeFile(join(folder, 'kept/damaged.json'), '{"format":1');
  expect(await notes.list()).toHaveLength(1);
});

it('names at most 20 of them, in characters that show', () => {
  const many = Array.from({ length: 21 }, () => ({ ...attachment, pod: 'shop/\u001B[2J' }));
  expect(nameKept(many)).toHaveLength(21);
  expect(nameKept(many).slice(-2)).toEqual(['shop/\\u001b[2J', '1 more']);
});
