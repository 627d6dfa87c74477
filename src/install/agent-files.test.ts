import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AgentFiles } from './agent-files.ts';

const never = new AbortController().signal;

let folder: string;
let files: AgentFiles;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-agent-files-'));
  files = new AgentFiles(folder, () => undefined);
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const path = (): string => join(folder, '10-netplug.conflist');
const conflist = (text: string, more: object = {}) => ({ kind: 'conflist' as const, path: path(), text, ...more });

describe('a file that the agent writes', () => {
  it('is left alone when another program has written it since it was read', async () => {
    await files.put(conflist('one'), never);
    await writeFile(path(), 'theirs');
    expect(await files.put(conflist('two', { over: 'one' }), never)).toBe(false);
    expect(await readFile(path(), 'utf8')).toBe('theirs');
    expect(await files.put(conflist('two', { over: 'theirs' }), never)).toBe(true);
    expect(await readFile(path(), 'utf8')).toBe('two');
  });

  it('is recorded with its entries when an earlier release recorded it without them', async () => {
    await files.put(conflist('one'), never);
    expect(await files.put(conflist('one', { entries: ['a'] }), never)).toBe(false);
    expect(await files.recordsOf(path())).toMatchObject([{ entries: ['a'] }]);
  });

  it('is recorded with what it was before, for uninstallation after a crash', async () => {
    for (const text of ['one', 'two', 'three', 'four']) await files.put(conflist(text, { entries: [text] }), never);
    expect((await files.recordsOf(path())).map(({ entries }) => entries)).toEqual([['two'], ['three'], ['four']]);
  });
});
