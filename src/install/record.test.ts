import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { restoreSettings } from '../dataplane/linux/forwarding-record.ts';
import { AgentFiles } from './agent-files.ts';
import { agentRecordPath, readRecord, recordPath, writeRecord } from './record.ts';

const NEWER = '{"format":2,"by":"v3.29.0","what":"is new"}\n';
const SILENT = { warn: (): void => undefined };

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-record-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

describe('a record of a newer release on a node', () => {
  it('is refused and stays when it lists installed files, and names the release that has written it', async () => {
    await writeFile(recordPath(folder), NEWER);
    await expect(readRecord(folder, SILENT)).rejects.toMatchObject({
      code: 'cli/version-mismatch',
      message: expect.stringContaining('v3.29.0 has written it in format 2, this release reads 1') as string,
      hint: 'Use netplugctl of v3.29.0',
    });
    expect(await readFile(recordPath(folder), 'utf8')).toBe(NEWER);
  });

  it('stays when it lists files of the agent, while the agent writes what pods need', async () => {
    await writeFile(agentRecordPath(folder), NEWER);
    const warnings: string[] = [];
    const files = new AgentFiles(folder, (text) => warnings.push(text));
    const path = join(folder, 'kubeconfig');
    const signal = new AbortController().signal;
    expect(await files.put({ kind: 'kubeconfig', path, text: 'server: a\n' }, signal)).toBe(true);
    expect(await readFile(path, 'utf8')).toBe('server: a\n');
    expect(await readFile(agentRecordPath(folder), 'utf8')).toBe(NEWER);
    expect(warnings).toEqual([expect.stringContaining('v3.29.0')]);
  });

  it('stays when it lists sysctls, for the release that can restore them', async () => {
    const path = join(folder, 'sysctls-ipv4.json');
    await writeFile(path, NEWER);
    restoreSettings(folder);
    expect(await readFile(path, 'utf8')).toBe(NEWER);
  });
});

describe('a record of this release', () => {
  it('is read again, and a damaged one is ignored with a warning', async () => {
    const files = [{ kind: 'token', path: '/etc/netplug/token', sha256: 'a' }] as const;
    await writeRecord(folder, { files, folders: [] });
    expect(await readRecord(folder, SILENT)).toMatchObject({ files });
    await writeFile(recordPath(folder), '{"format":1}');
    const warnings: string[] = [];
    expect(await readRecord(folder, { warn: (text) => warnings.push(text) })).toBeUndefined();
    expect(warnings).toHaveLength(1);
  });
});
