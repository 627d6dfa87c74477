import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  copyFileAtomically,
  linkFileAtomically,
  readFileState,
  removeAbandoned,
  sha256Of,
  writeFileAtomically,
} from './atomic-file.ts';

const never = new AbortController().signal;

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-atomic-'));
  path = join(folder, 'file');
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

describe('a file written atomically', () => {
  it('has its text and exactly its permissions, as a new file', async () => {
    await writeFile(path, 'old', { mode: 0o644 });
    const before = await stat(path);
    await writeFileAtomically(path, { text: 'new', mode: 0o600 });
    expect(await readFileState(path, never)).toEqual({ sha256: sha256Of('new'), sizeBytes: 3, mode: 0o600 });
    expect((await stat(path)).ino).not.toBe(before.ino);
    expect(await readdir(folder)).toEqual(['file']);
  });

  it('leaves nothing behind when it cannot take its place', async () => {
    await mkdir(path);
    await expect(writeFileAtomically(path, { text: 'new', mode: 0o600 })).rejects.toMatchObject({ code: 'EISDIR' });
    expect(await readdir(folder)).toEqual(['file']);
  });
});

describe('a file copied atomically', () => {
  it('tells what was copied', async () => {
    const text = 'x'.repeat(3_000_000);
    await writeFile(join(folder, 'source'), text);
    expect(await copyFileAtomically(join(folder, 'source'), path, { mode: 0o755, signal: never })).toBe(sha256Of(text));
    expect(await readFileState(path, never)).toEqual({ sha256: sha256Of(text), sizeBytes: text.length, mode: 0o755 });
  });

  it('leaves nothing behind when it is stopped', async () => {
    await writeFile(join(folder, 'source'), 'x');
    const signal = AbortSignal.abort(new Error('stopped'));
    await expect(copyFileAtomically(join(folder, 'source'), path, { mode: 0o755, signal })).rejects.toThrow('stopped');
    expect(await readdir(folder)).toEqual(['source']);
  });
});

describe('a second name', () => {
  it('replaces another file, and may be given again', async () => {
    await writeFile(path, 'a');
    await writeFile(join(folder, 'other'), 'b');
    await linkFileAtomically(path, join(folder, 'other'));
    await linkFileAtomically(path, join(folder, 'other'));
    expect((await stat(join(folder, 'other'))).ino).toBe((await stat(path)).ino);
    expect(await readdir(folder)).toEqual(['file', 'other']);
  });
});

describe('the state of a path', () => {
  it('is undefined for what is missing and for what is no file', async () => {
    expect(await readFileState(path, never)).toBeUndefined();
    expect(await readFileState(folder, never)).toBeUndefined();
    expect(await readFileState(join(path, 'below'), never)).toBeUndefined();
  });

  it('has the permissions', async () => {
    await writeFile(path, '');
    await chmod(path, 0o640);
    expect(await readFileState(path, never)).toMatchObject({ mode: 0o640, sizeBytes: 0 });
  });
});

describe('what a killed process left', () => {
  it('goes when it is old, and nothing else goes', async () => {
    for (const name of ['.a.0011.netplug-tmp', '.b.0022.netplug-tmp', '.c.tmp']) {
      await writeFile(join(folder, name), '');
      await utimes(join(folder, name), 100, name.startsWith('.b') ? 300 : 100);
    }
    await writeFile(path, 'kept');
    await removeAbandoned(folder, 200_000);
    expect(await readdir(folder)).toEqual(['.b.0022.netplug-tmp', '.c.tmp', 'file']);
    expect(await readFile(path, 'utf8')).toBe('kept');
  });
});
