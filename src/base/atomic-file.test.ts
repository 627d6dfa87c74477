import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  copyFileAtomically,
  linkFileAtomically,
  readFileState,
  removeAbandoned,
  writeFileAtomically,
} from './atomic-file.ts';
import { sha256Of } from './sha256.ts';

const never = new AbortController().signal;

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-atomic-'));
  path = join(folder, 'file');
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

describe('a file written atomically', () => {
  it('is a new file with the given text and exactly the given permissions', async () => {
    await writeFile(path, 'old', { mode: 0o644 });
    const before = await stat(path);
    await writeFileAtomically(path, { text: 'new', mode: 0o600 });
    expect(await readFileState(path, never)).toEqual({ sha256: sha256Of('new'), sizeBytes: 3, mode: 0o600 });
    expect((await stat(path)).ino).not.toBe(before.ino);
    expect(await readdir(folder)).toEqual(['file']);
  });

  it('leaves no temporary file when the rename fails', async () => {
    await mkdir(path);
    await expect(writeFileAtomically(path, { text: 'new', mode: 0o600 })).rejects.toMatchObject({ code: 'EISDIR' });
    expect(await readdir(folder)).toEqual(['file']);
  });
});

describe('a file copied atomically', () => {
  it('returns the SHA-256 of the copied contents', async () => {
    const text = 'x'.repeat(3_000_000);
    await writeFile(join(folder, 'source'), text);
    expect(await copyFileAtomically(join(folder, 'source'), path, { mode: 0o755, signal: never })).toBe(sha256Of(text));
    expect(await readFileState(path, never)).toEqual({ sha256: sha256Of(text), sizeBytes: text.length, mode: 0o755 });
  });

  it('leaves no temporary file when the copy is aborted', async () => {
    await writeFile(join(folder, 'source'), 'x');
    const signal = AbortSignal.abort(new Error('stopped'));
    await expect(copyFileAtomically(join(folder, 'source'), path, { mode: 0o755, signal })).rejects.toThrow('stopped');
    expect(await readdir(folder)).toEqual(['source']);
  });
});

describe('a hard link made atomically', () => {
  it('replaces another file, and can be made again', async () => {
    await writeFile(path, 'a');
    await writeFile(join(folder, 'other'), 'b');
    await linkFileAtomically(path, join(folder, 'other'));
    await linkFileAtomically(path, join(folder, 'other'));
    expect((await stat(join(folder, 'other'))).ino).toBe((await stat(path)).ino);
    expect(await readdir(folder)).toEqual(['file', 'other']);
  });
});

describe('the state of a path', () => {
  it('is undefined when the path is missing or not a regular file', async () => {
    expect(await readFileState(path, never)).toBeUndefined();
    expect(await readFileState(folder, never)).toBeUndefined();
    expect(await readFileState(join(path, 'below'), never)).toBeUndefined();
  });

  it('contains the permission bits', async () => {
    await writeFile(path, '');
    await chmod(path, 0o640);
    expect(await readFileState(path, never)).toMatchObject({ mode: 0o640, sizeBytes: 0 });
  });
});

describe('temporary files of a killed process', () => {
  it('are removed when they are older than the given time; other files stay', async () => {
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
