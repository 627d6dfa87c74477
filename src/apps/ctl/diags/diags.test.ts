import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type CtlWorld, machineIn, type Ran } from '../../../../test/support/ctl.ts';
import { nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { MemoryKernel } from '../../../../test/support/memory/memory-kernel.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';

let folder: string;
let database: MemoryDatabase;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-diags-test-'));
  database = new MemoryDatabase();
  database.putResource({ kind: 'IPPool', name: 'blue' }, poolOf('blue', '10.0.0.0/16'));
  for (const name of ['net.d', 'state/journal', 'run/bird', 'log/cni'])
    await mkdir(join(folder, name), { recursive: true });
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const at = (path: string): string => join(folder, path);
const archive = (): string => at('report.tar.gz');

async function run(argv: string, more: CtlWorld = {}): Promise<Ran> {
  const where = `--conf-dir ${at('net.d')} --bin-dir ${folder} --health 127.0.0.1:9 --output ${archive()}`;
  return callCtl(`diags ${where} ${argv}`.trim().split(' '), {
    env: { KV_ENDPOINTS: 'http://127.0.0.1:1' },
    machine: machineIn(folder),
    openStore: () => openMemoryStore(database),
    openKernel: () => new MemoryKernel(),
    ...more,
  });
}

function tar(...args: string[]): string {
  return execFileSync('tar', [...args, '--file', archive()], { encoding: 'utf8' });
}

/** Returns the text of one file in the archive. */
function unpacked(path: string): string {
  const name = tar('--list')
    .split('\n')
    .find((each) => each.endsWith(`/${path}`));
  return tar('--extract', '--to-stdout', name ?? path);
}

describe('netplugctl diags', { timeout: 120_000 }, () => {
  it('writes an archive that only its owner can read, with a manifest of its files', async () => {
    await writeFile(at('state/journal/a.jsonl'), 'contents stay here');
    const ran = await run('');
    expect(ran).toMatchObject({ status: 0, out: expect.stringMatching(/report\.tar\.gz: \d+ files, [\d.]+ KiB\n$/) });
    expect((await stat(archive())).mode & 0o777).toBe(0o600);
    const { files, failed, node } = JSON.parse(unpacked('manifest.json'));
    const paths = files.map(({ path }: { path: string }) => path);
    expect(node).toBe('node-a');
    expect(paths).toEqual(expect.arrayContaining(['doctor.json', 'resources/ippools.json', 'state/journal.json']));
    expect(failed).toContainEqual({ path: 'agent/network.json', reason: 'no agent listens' });
    expect(ran.err).toContain(`${String(failed.length)} items could not be gathered`);
    const listed = tar('--list')
      .split('\n')
      .filter((each) => each !== '' && !each.endsWith('/'));
    expect(listed.map((each) => each.slice(each.indexOf('/') + 1)).toSorted()).toEqual(
      [...paths, 'manifest.json'].toSorted(),
    );
    expect(JSON.parse(unpacked('resources/ippools.json')).items).toMatchObject([{ metadata: { name: 'blue' } }]);
    expect(JSON.parse(unpacked('state/journal.json'))).toMatchObject([{ name: 'a.jsonl', sizeBytes: 18 }]);
    expect(gunzipSync(await readFile(archive())).includes('contents stay here')).toBe(false);
  });

  it('replaces an existing file only with --force', async () => {
    await writeFile(archive(), 'mine');
    expect(await run('')).toMatchObject({ status: 64, err: expect.stringContaining('the file exists') });
    expect(await readFile(archive(), 'utf8')).toBe('mine');
    expect(await run('--force')).toMatchObject({ status: 0 });
  });

  it('waits for tar to exit after it has closed its output', async () => {
    const before = process.env['PATH'];
    const lingering = '#!/bin/sh\nPATH=${PATH#*:} tar "$@" || exit\nexec >&-\nsleep 0.2\n';
    await writeFile(at('tar'), lingering, { mode: 0o755 });
    process.env['PATH'] = `${folder}:${before ?? ''}`;
    try {
      expect(await run('')).toMatchObject({ status: 0 });
    } finally {
      process.env['PATH'] = before;
    }
  });

  it('fails when the folder of the archive does not exist', async () => {
    const output = at('no-such-folder/report.tar.gz');
    expect(await run(`--output ${output}`)).toMatchObject({
      status: 74,
      err: expect.stringContaining(`Cannot write "${output}": it does not exist`),
    });
  });

  it('packs only log lines since the time of --since', async () => {
    const [old, now] = [
      '2026-01-01T20:00:00.000Z INFO    old\n  more of it\n',
      '2026-01-01T23:00:00.000Z INFO    new\n',
    ];
    await writeFile(at('log/cni/cni.log'), old + now);
    await writeFile(at('log/cni/cni.log.2025'), old);
    await utimes(at('log/cni/cni.log.2025'), 0, 0);
    await run('');
    const path = `logs${at('log/cni/cni.log')}`;
    expect(unpacked(path)).toBe(old + now);
    await run('--force --since 2h');
    expect(unpacked(path)).toBe(now);
    expect(tar('--list')).not.toContain('cni.log.2025');
    expect(await run('--since yesterday')).toMatchObject({ status: 64 });
  });
});

describe('netplugctl diags: secrets in the archive', { timeout: 120_000 }, () => {
  const secrets = fc
    .string({ minLength: 10, maxLength: 30, unit: 'grapheme-ascii' })
    .filter((text) => text.trim() === text && text.length >= 10);

  /** Writes the secret to every place of a node where one may be, on purpose or by accident. */
  async function plant(secret: string): Promise<CtlWorld> {
    const url = `https://root:${encodeURIComponent(secret)}@127.0.0.1:1`;
    const key = `-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----`;
    await writeFile(
      at('kubeconfig'),
      JSON.stringify({ users: [{ user: { token: secret, 'client-key-data': Buffer.from(key).toString('base64') } }] }),
    );
    await writeFile(at('etcd.key'), key);
    const netplug = {
      type: 'netplug',
      kv_endpoints: url,
      orch: { orchconfig: at('kubeconfig') },
      ipam: { type: 'netplug-ipam' },
    };
    await writeFile(
      at('net.d/10-netplug.conflist'),
      JSON.stringify({ name: 'n', cniVersion: '1.0.0', plugins: [netplug] }),
    );
    await writeFile(at('net.d/20-broken.conf'), `{"type": "other", "api_token": ${JSON.stringify(secret)},`);
    await writeFile(at('run/bird/bird.conf'), `password "${secret}";`);
    await writeFile(at('run/bird/bird.log'), `said ${secret} there\n`);
    await writeFile(at('log/cni/cni.log'), `2026-01-01 INFO  x password=${secret}\n${key}\nplain ${secret} plain\n`);
    const annotations = { 'example.org/note': secret };
    const node = nodeOf('node-a');
    database.putResource({ kind: 'Node', name: 'node-a' }, { ...node, metadata: { ...node.metadata, annotations } });
    return {
      env: { KV_ENDPOINTS: url, MY_PASSWORD: secret },
      askAgent: async () => Promise.resolve(JSON.stringify({ header: `Bearer ${secret}`, note: secret })),
    };
  }

  it('redacts secrets of the kubeconfig that --kubeconfig names', async () => {
    const token = 'token-of-an-administrator';
    await writeFile(at('admin'), JSON.stringify({ users: [{ name: 'u', user: { token } }] }));
    await writeFile(at('log/cni/cni.log'), `2026-01-01 INFO  x\nplain ${token} plain\n`);
    expect(await run(`--force --kubeconfig ${at('admin')}`)).toMatchObject({ status: 0 });
    expect(unpacked(`logs${at('log/cni/cni.log')}`)).toContain('plain [redacted] plain');
    expect(gunzipSync(await readFile(archive())).includes(token)).toBe(false);
  });

  it('redacts every secret that is on the node', async () => {
    await fc.assert(
      fc.asyncProperty(secrets, async (secret) => {
        expect((await run('--force', await plant(secret))).status).toBe(0);
        const bytes = gunzipSync(await readFile(archive())).toString('latin1');
        const base64 = Buffer.from(secret).toString('base64').replace(/=+$/, '');
        const forms = [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret), base64];
        expect(forms.filter((form) => bytes.includes(form))).toEqual([]);
        expect(unpacked(`logs${at('log/cni/cni.log')}`)).toContain('plain [redacted] plain');
      }),
      { numRuns: 8 },
    );
  }, 240_000);
});
